//! The definitions of this project's own kinds are structural and can be served.

use litek8s_machinery::decode::{Limits, from_yaml};
use litek8s_machinery::resource::custom;

const DEFINITIONS: [&[u8]; 6] = [
    include_bytes!("../../../crds/manifests/vipaddresses.netwrangler.dev.yaml"),
    include_bytes!("../../../crds/manifests/vipconfigs.netwrangler.dev.yaml"),
    include_bytes!("../../../crds/manifests/vipgateways.netwrangler.dev.yaml"),
    include_bytes!("../../../crds/manifests/vipguards.netwrangler.dev.yaml"),
    include_bytes!("../../../crds/manifests/vipnetworks.netwrangler.dev.yaml"),
    include_bytes!("../../../crds/manifests/viproutes.netwrangler.dev.yaml"),
];

#[test]
fn our_own_definitions_are_structural() {
    for body in DEFINITIONS {
        let definition = from_yaml(body, &Limits::default()).unwrap();
        assert!(definition.duplicate_keys.is_empty());
        let resources = custom::resources(&definition.value).unwrap();
        assert_eq!(&*resources[0].group, "netwrangler.dev");
    }
}
