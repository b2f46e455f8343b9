//! The definitions of this project's own kinds are structural and are served with columns and statuses.

use litek8s_machinery::decode::{Limits, from_yaml};
use litek8s_machinery::resource::custom;

#[test]
fn our_own_definitions_are_structural() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/manifests");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let body = std::fs::read(&path).unwrap();
        let definition = from_yaml(&body, &Limits::default()).unwrap();
        assert!(definition.duplicate_keys.is_empty(), "{}", path.display());
        let resources = custom::resources(&definition.value).unwrap();
        assert!(!resources.is_empty(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 5);
}
