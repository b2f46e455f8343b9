//! Writes the CustomResourceDefinitions to `crds/manifests/`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    std::fs::create_dir_all(&folder)?;
    for definition in litek8s_crds::definitions() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        std::fs::write(
            folder.join(format!("{name}.yaml")),
            serde_saphyr::to_string(&serde_json::to_value(&definition)?)?,
        )?;
    }
    Ok(())
}
