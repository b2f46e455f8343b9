//! Whether the custom resource definitions that a cluster serves are those of this release. Pure.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// Where a definition lacks what this release's has, as a path; nothing when it has it all. What a server adds, such as
/// defaults, and what a later release added is no lack.
pub(crate) fn lack(served: &CustomResourceDefinition, wanted: &CustomResourceDefinition) -> Option<String> {
    // Definitions are plain data.
    let text =
        |definition: &CustomResourceDefinition| serde_json::to_value(&definition.spec).unwrap_or_default();
    differs("spec", &text(served), &text(wanted))
}

/// The first place where `has` is without something of `wants`.
fn differs(path: &str, has: &Value, wants: &Value) -> Option<String> {
    match (has, wants) {
        (Value::Object(has), Value::Object(wants)) => wants.iter().find_map(|(key, wanted)| {
            let place = format!("{path}.{key}");
            has.get(key).map_or_else(|| Some(place.clone()), |had| differs(&place, had, wanted))
        }),
        (Value::Array(has), Value::Array(wants)) if has.len() >= wants.len() => {
            let pairs = has.iter().zip(wants).enumerate();
            pairs.into_iter().find_map(|(at, (had, wanted))| differs(&format!("{path}[{at}]"), had, wanted))
        }
        (has, wants) => (has != wants).then(|| path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_lacks_nothing_of_its_own_nor_what_a_server_adds() {
        for definition in litek8s_crds::definitions() {
            let mut served = definition.clone();
            served.metadata.uid = Some("uid".to_owned());
            served.spec.preserve_unknown_fields = Some(false);
            assert_eq!(lack(&served, &definition), None);
        }
    }

    #[test]
    fn an_older_definition_says_what_it_lacks() {
        let definition = litek8s_crds::definitions().remove(0);
        let mut older = definition.clone();
        older.spec.versions[0].additional_printer_columns.as_mut().unwrap().pop();
        assert_eq!(lack(&older, &definition).as_deref(), Some("spec.versions[0].additionalPrinterColumns"));
        let mut older = definition.clone();
        let schema = older.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        let spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
        spec.properties.as_mut().unwrap().remove("rebalance");
        assert_eq!(
            lack(&older, &definition).as_deref(),
            Some("spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.rebalance")
        );
    }
}
