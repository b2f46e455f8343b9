//! The manifests in the tree are those of the types.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_manifests_in_the_tree_are_generated_from_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let mut expected = BTreeSet::new();
    for definition in litek8s_crds::definitions() {
        let file = format!("{}.yaml", definition.metadata.name.clone().unwrap());
        let text = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
        let value = serde_json::to_value(&definition).unwrap();
        assert!(
            text == serde_saphyr::to_string(&value).unwrap(),
            "{file} is out of date: cargo run -p litek8s-crds --example manifests"
        );
        let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, value, "{file} reads back as something else");
        expected.insert(file);
    }
    let found: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, expected);
}
