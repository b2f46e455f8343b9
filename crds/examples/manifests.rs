//! Writes the CustomResourceDefinitions to `crds/manifests/`, and as templates into the Helm chart.

use std::path::Path;

#[path = "../tests/manifests/rendering.rs"]
mod rendering;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (folder, render) in rendering::PLACES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        std::fs::create_dir_all(&folder)?;
        for definition in litek8s_crds::definitions() {
            let name = definition.metadata.name.clone().unwrap_or_default();
            std::fs::write(folder.join(format!("{name}.yaml")), render(&definition)?)?;
        }
    }
    Ok(())
}
