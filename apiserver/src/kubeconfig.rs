//! A kubeconfig with everything in it: one cluster, one user, one context.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use litek8s_daemon::pki::Identity;

/// The text of a kubeconfig for `server`, a URL, with the CA and the client's certificate and key inside.
pub fn render(server: &str, ca: &str, client: &Identity) -> String {
    let [ca, certificate, key] = [ca, &client.certificate, &client.key].map(|pem| STANDARD.encode(pem));
    // A JSON string is a YAML string, whatever the URL holds.
    let server = serde_json::Value::from(server);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: litek8s
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: litek8s
  context:
    cluster: litek8s
    user: admin
current-context: litek8s
preferences: {{}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_yaml_with_the_files_inside() {
        let client = Identity { certificate: "CERT".into(), key: "KEY".into() };
        let text = render("https://127.0.0.1:6443", "CA", &client);
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
        let decode = |value: &serde_json::Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        assert_eq!(decode(&value["clusters"][0]["cluster"]["certificate-authority-data"]), b"CA");
        assert_eq!(decode(&value["users"][0]["user"]["client-key-data"]), b"KEY");
        assert_eq!(value["current-context"], value["contexts"][0]["name"]);
    }
}
