//! The parameters a binding gives to its policy.

use litek8s_machinery::selector::LabelSelector;
use serde_json::Value;

use super::super::attributes::Attributes;
use super::binding::Binding;
use super::definition::ParamKind;

/// The parameter objects, or one nothing for a policy that is asked without.
pub(in crate::admission) fn collect(
    kind: Option<&ParamKind>,
    binding: &Binding,
    attributes: &Attributes<'_>,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(kind), Some(wanted)) = (kind, &binding.param) else { return Ok(vec![None]) };
    let table = attributes.cx.api.registry.table();
    let served = table
        .by_kind(&kind.group, &kind.version, &kind.kind)
        .ok_or_else(|| format!("paramKind kind `{}` not known", kind.text()))?;
    let namespace = match (served.resource.namespaced, wanted.namespace.as_str()) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "") if attributes.cx.namespace.is_empty() => {
            let error =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(error.to_owned());
        }
        (true, "") => attributes.cx.namespace,
        (true, given) => given,
    };
    let view = attributes.cx.view;
    let mut found = Vec::new();
    if !wanted.name.is_empty() {
        if !wanted.selector.is_null() {
            return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned());
        }
        found.extend(view.get(&served.object_key(namespace, &wanted.name)));
    } else if !wanted.selector.is_null() {
        let selector = LabelSelector::from_json(&wanted.selector).map_err(|error| error.to_string())?;
        let within = Some(namespace).filter(|namespace| !namespace.is_empty());
        found.extend(view.list(&served.key, within).filter(|object| selector.matches(&object.meta.labels)));
    } else {
        return Err("one of name or selector must be provided".to_owned());
    }
    if found.is_empty() && wanted.required {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let values = found.into_iter().map(|object| served.value(object).map(Some));
    values.collect::<Result<_, _>>().map_err(|error| error.message)
}
