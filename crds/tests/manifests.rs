//! The manifests in the tree are those of the types.

use std::collections::BTreeSet;
use std::path::Path;

#[path = "manifests/rendering.rs"]
mod rendering;

#[test]
fn the_manifests_in_the_tree_are_generated_from_the_types() {
    for (place, render) in rendering::PLACES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(place);
        let mut expected = BTreeSet::new();
        for definition in litek8s_crds::definitions() {
            let file = format!("{}.yaml", definition.metadata.name.clone().unwrap());
            let text = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
            assert!(
                text == render(&definition).unwrap(),
                "{place}/{file} is out of date: cargo run -p litek8s-crds --example manifests"
            );
            expected.insert(file);
        }
        let found: BTreeSet<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(found, expected, "{place}");
    }
}

#[test]
fn a_manifest_reads_back_as_the_same() {
    for definition in litek8s_crds::definitions() {
        let read: serde_json::Value =
            serde_saphyr::from_str(&rendering::manifest(&definition).unwrap()).unwrap();
        assert_eq!(read, serde_json::to_value(&definition).unwrap());
    }
}
