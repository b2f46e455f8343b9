//! The baseline level: nothing that is known to lead out of a container.

use std::collections::BTreeSet;

use serde_json::Value;

use super::seen::{Seen, security, texts};
use super::{Violation, annotations, by_containers, containers, is_windows, plural, text};

/// Capabilities that container runtimes grant anyway.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Kernel settings that end at the pod.
const SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];
const SELINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// What is against the baseline; with `restricted`, without what the restricted level says better.
pub(super) fn check(seen: &Seen<'_>, restricted: bool) -> Vec<Violation> {
    let host_ports = host_ports(seen);
    let privileged = seen.that(|container| security(container, "privileged") == true);
    let always = [
        app_armor(seen),
        host_namespaces(seen),
        host_ports,
        by_containers("privileged", &privileged, "must not set securityContext.privileged=true"),
        proc_mount(seen),
        selinux(seen),
        sysctls(seen),
        host_process(seen),
        volumes(seen),
    ];
    let loose = [capabilities(seen), seccomp(seen)];
    let keep_loose = !restricted || is_windows(seen);
    always.into_iter().chain(loose.into_iter().filter(|_| keep_loose)).flatten().collect()
}

fn app_armor(seen: &Seen<'_>) -> Option<Violation> {
    let mut bad = BTreeSet::new();
    for (name, value) in annotations(seen.object).into_iter().flatten() {
        let profile = value.as_str().unwrap_or_default();
        let fine = profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/");
        if name.starts_with(APPARMOR) && !fine {
            bad.insert(format!("{name}={profile:?}"));
        }
    }
    let forbidden = |profile: &Value| {
        text(profile, "type").is_some_and(|ty| !matches!(ty, "RuntimeDefault" | "Localhost"))
    };
    if forbidden(seen.security("appArmorProfile")) {
        bad.insert("pod must not set AppArmor profile type to \"Unconfined\"".to_owned());
    }
    let names = seen.that(|container| forbidden(security(container, "appArmorProfile")));
    if !names.is_empty() {
        bad.insert(format!("{} must not set AppArmor profile type to \"Unconfined\"", containers(&names)));
    }
    let what = if bad.len() > 1 { "forbidden AppArmor profiles" } else { "forbidden AppArmor profile" };
    (!bad.is_empty()).then(|| Violation { what, detail: bad.into_iter().collect::<Vec<_>>().join(", ") })
}

fn host_namespaces(seen: &Seen<'_>) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let used: Vec<String> =
        fields.iter().filter(|f| seen.spec[**f] == true).map(|field| format!("{field}=true")).collect();
    (!used.is_empty()).then(|| Violation { what: "host namespaces", detail: used.join(", ") })
}

fn host_ports(seen: &Seen<'_>) -> Option<Violation> {
    let used = |container: &Value| {
        let ports = container["ports"].as_array().into_iter().flatten();
        ports.filter_map(|port| port["hostPort"].as_i64().filter(|port| *port != 0)).collect::<BTreeSet<_>>()
    };
    let names = seen.that(|container| !used(container).is_empty());
    let ports: BTreeSet<i64> = seen.containers().flat_map(|(_, container)| used(container)).collect();
    let list = ports.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let word = if ports.len() == 1 { "hostPort" } else { "hostPorts" };
    let verb = if names.len() == 1 { "uses" } else { "use" };
    by_containers("hostPort", &names, &format!("{verb} {word} {list}"))
}

fn proc_mount(seen: &Seen<'_>) -> Option<Violation> {
    let other =
        |container: &Value| security(container, "procMount").as_str().is_some_and(|mount| mount != "Default");
    // A user namespace makes it harmless.
    if seen.spec["hostUsers"] == false {
        return None;
    }
    by_containers("procMount", &seen.that(other), "must not set securityContext.procMount to \"Unmasked\"")
}

fn selinux(seen: &Seen<'_>) -> Option<Violation> {
    let mut details = Vec::new();
    let bad = |options: &Value| {
        let ty = text(options, "type").unwrap_or_default();
        let named = |field: &str| text(options, field).is_some_and(|name| !name.is_empty());
        !SELINUX_TYPES.contains(&ty) || named("user") || named("role")
    };
    if bad(seen.security("seLinuxOptions")) {
        details.push("pod set forbidden securityContext.seLinuxOptions".to_owned());
    }
    let names = seen.that(|container| bad(security(container, "seLinuxOptions")));
    if !names.is_empty() {
        details.push(format!("{} set forbidden securityContext.seLinuxOptions", containers(&names)));
    }
    (!details.is_empty()).then(|| Violation { what: "seLinuxOptions", detail: details.join("; ") })
}

fn sysctls(seen: &Seen<'_>) -> Option<Violation> {
    let set = seen.security("sysctls").as_array().into_iter().flatten();
    let bad: Vec<&str> =
        set.filter_map(|sysctl| text(sysctl, "name")).filter(|name| !SYSCTLS.contains(name)).collect();
    (!bad.is_empty()).then(|| Violation { what: "forbidden sysctls", detail: bad.join(", ") })
}

fn host_process(seen: &Seen<'_>) -> Option<Violation> {
    let mut details = Vec::new();
    if seen.security("windowsOptions.hostProcess") == true {
        details.push("pod must not set securityContext.windowsOptions.hostProcess=true".to_owned());
    }
    let names = seen.that(|container| security(container, "windowsOptions.hostProcess") == true);
    if !names.is_empty() {
        details.push(format!(
            "{} must not set securityContext.windowsOptions.hostProcess=true",
            containers(&names)
        ));
    }
    (!details.is_empty()).then(|| Violation { what: "hostProcess", detail: details.join(" and ") })
}

fn volumes(seen: &Seen<'_>) -> Option<Violation> {
    let volumes = seen.spec["volumes"].as_array().into_iter().flatten();
    let names: Vec<&str> = volumes
        .filter(|volume| volume["hostPath"].is_object())
        .filter_map(|volume| text(volume, "name"))
        .collect();
    (!names.is_empty()).then(|| Violation { what: "hostPath volumes", detail: plural("volume", &names) })
}

fn capabilities(seen: &Seen<'_>) -> Option<Violation> {
    let extra = |container: &Value| {
        let added =
            texts(security(container, "capabilities.add")).filter(|name| !CAPABILITIES.contains(name));
        added.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let names = seen.that(|container| !extra(container).is_empty());
    let all: BTreeSet<String> = seen.containers().flat_map(|(_, container)| extra(container)).collect();
    let list = all.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    by_containers(
        "non-default capabilities",
        &names,
        &format!("must not include {list} in securityContext.capabilities.add"),
    )
}

fn seccomp(seen: &Seen<'_>) -> Option<Violation> {
    const MUST: &str = "must not set securityContext.seccompProfile.type to \"Unconfined\"";
    let mut details = Vec::new();
    if seen.security("seccompProfile.type") == "Unconfined" {
        details.push(format!("pod {MUST}"));
    }
    let names = seen.that(|container| security(container, "seccompProfile.type") == "Unconfined");
    if !names.is_empty() {
        details.push(format!("{} {MUST}", containers(&names)));
    }
    (!details.is_empty()).then(|| Violation { what: "seccompProfile", detail: details.join(" and ") })
}
