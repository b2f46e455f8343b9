//! From a subject to the commands it needs.

use ipnet::IpNet;
use jiff::Timestamp;
use litek8s_store::{Command, View};

use super::subject::Subject;
use super::{address, definition, edit, garbage, namespace, namespace_defaults, service_cidr};
use crate::aggregation::Contents;
use crate::registry::Table;

/// What a decision looks at.
pub(super) struct Facts<'a> {
    pub(super) view: &'a View,
    pub(super) table: &'a Table,
    /// The cluster's CA, PEM.
    pub(super) ca: &'a str,
    /// The ranges of Services that no object takes away.
    pub(super) service_cidrs: &'a [IpNet],
    pub(super) now: Timestamp,
    /// What aggregated servers have of namespaces that end; `None` when there are no such servers.
    pub(super) aggregated: Option<&'a Contents>,
}

/// What is to be done about a subject now. Doing it changes the subject so that the same is not decided again.
pub(super) fn decide(facts: &Facts<'_>, subject: &Subject) -> Vec<Command> {
    match subject {
        Subject::Object(key) => garbage::decide(facts, key),
        Subject::Namespace(name) => {
            let mut commands = namespace::decide(facts, name);
            commands.extend(namespace_defaults::decide(facts, name));
            commands
        }
        Subject::Definition(name) => definition::decide(facts, name),
        Subject::ServiceCidr(name) => service_cidr::decide(facts, name),
        Subject::Address(ip) => address::decide(facts, ip),
        Subject::Leftovers(resource) => definition::leftovers(facts, resource),
        Subject::Ended(key) => facts.view.get(key).map(|event| edit::delete(event)).into_iter().collect(),
    }
}
