//! How the definitions are written, and where to.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

type Rendered = Result<String, Box<dyn std::error::Error>>;
type Render = fn(&CustomResourceDefinition) -> Rendered;

/// Folders from here, and what is in their files.
pub(crate) const PLACES: [(&str, Render); 2] =
    [("manifests", manifest), ("../charts/litek8s/templates/crds", template)];

/// The definition itself.
pub(crate) fn manifest(definition: &CustomResourceDefinition) -> Rendered {
    Ok(serde_saphyr::to_string(&serde_json::to_value(definition)?)?)
}

/// The definition in the chart: a template, so that it is upgraded with the chart, and may be kept at its end. Helm
/// passes over what is in a chart's `crds` folder once it is there.
fn template(definition: &CustomResourceDefinition) -> Rendered {
    let text = manifest(definition)?;
    if text.contains("{{") {
        return Err("a definition has braces that Helm would take for a template".into());
    }
    let (head, tail) = text.split_once("\nmetadata:\n").ok_or("a definition without metadata")?;
    let annotations = "  {{- include \"litek8s.crdAnnotations\" . | nindent 2 }}\n";
    Ok(format!("{{{{- if .Values.crds.enabled }}}}\n{head}\nmetadata:\n{annotations}{tail}{{{{- end }}}}\n"))
}
