//! The policy: the first rule that fits a request says how much of it is logged.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::request::{RequestInfo, UserInfo};

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) enum Level {
    /// Nothing.
    None,
    /// Who, what, when and the answer's code.
    Metadata,
    /// And the request's body.
    Request,
    /// And the answer's body.
    RequestResponse,
}

impl Level {
    /// The word in an event.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// When an event is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Stage {
    /// Before the request is handled.
    RequestReceived,
    /// The head of a stream is sent.
    ResponseStarted,
    /// Everything is sent.
    ResponseComplete,
    /// The handler broke.
    Panic,
}

impl Stage {
    /// The word in an event.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// audit.k8s.io/v1 Policy.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Policy {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: Option<IgnoredAny>,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<Resources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// What the policy says about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// How much.
    pub(super) level: Level,
    /// When not.
    pub(super) omit_stages: Vec<Stage>,
    /// Whether `managedFields` are left out of bodies.
    pub(super) omit_managed_fields: bool,
}

impl Policy {
    /// Everything by its metadata, once it is answered.
    pub(super) fn metadata_of_everything() -> Self {
        let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";
        Self::parse(text).unwrap_or_default()
    }

    /// Reads a policy in YAML or JSON.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let policy: Self = serde_saphyr::from_str(text)?;
        anyhow::ensure!(
            policy.api_version == "audit.k8s.io/v1" && policy.kind == "Policy",
            "expected kind Policy of audit.k8s.io/v1, found {:?} of {:?}",
            policy.kind,
            policy.api_version
        );
        anyhow::ensure!(!policy.rules.is_empty(), "it has no rules");
        for (at, rule) in policy.rules.iter().enumerate() {
            let on_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
            anyhow::ensure!(
                !on_resources || rule.non_resource_urls.is_empty(),
                "rules[{at}]: rules cannot apply to both regular resources and non-resource URLs"
            );
        }
        Ok(policy)
    }

    /// What is logged of a request; nothing when no rule fits.
    pub(super) fn judge(&self, user: &UserInfo, info: &RequestInfo) -> Verdict {
        let rule = self.rules.iter().find(|rule| rule.fits(user, info));
        let Some(rule) = rule else {
            return Verdict { level: Level::None, omit_stages: Vec::new(), omit_managed_fields: false };
        };
        let mut level = rule.level;
        // A rule about everything does not mean to write secrets down.
        if is_secret(info) && !rule.names(&info.resource) {
            level = level.min(Level::Metadata);
        }
        let omit_stages = self.omit_stages.iter().chain(&rule.omit_stages).copied().collect();
        let omit_managed_fields = rule.omit_managed_fields.unwrap_or(self.omit_managed_fields);
        Verdict { level, omit_stages, omit_managed_fields }
    }
}

impl Rule {
    fn fits(&self, user: &UserInfo, info: &RequestInfo) -> bool {
        if !self.users.is_empty() && !self.users.contains(&user.name) {
            return false;
        }
        if !self.user_groups.is_empty() && !self.user_groups.iter().any(|group| user.in_group(group)) {
            return false;
        }
        if !self.verbs.is_empty() && !self.verbs.contains(&info.verb) {
            return false;
        }
        if !self.resources.is_empty() || !self.namespaces.is_empty() {
            return info.is_resource_request && self.fits_resource(info);
        }
        self.non_resource_urls.is_empty()
            || (!info.is_resource_request && self.non_resource_urls.iter().any(|url| covers(url, &info.path)))
    }

    fn fits_resource(&self, info: &RequestInfo) -> bool {
        if !self.namespaces.is_empty() && !self.namespaces.contains(&info.namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|resources| resources.fits(info))
    }

    /// Whether the rule says the resource's name.
    fn names(&self, resource: &str) -> bool {
        let base = |name: &String| name.split('/').next() == Some(resource);
        self.resources.iter().any(|resources| resources.resources.iter().any(base))
    }
}

impl Resources {
    fn fits(&self, info: &RequestInfo) -> bool {
        if self.group != info.api_group {
            return false;
        }
        let named = self.resource_names.is_empty() || self.resource_names.contains(&info.name);
        let one = |pattern: &String| match pattern.split_once('/') {
            None => pattern == "*" || (*pattern == info.resource && info.subresource.is_empty()),
            Some((resource, subresource)) => {
                !info.subresource.is_empty()
                    && (resource == "*" || resource == info.resource)
                    && (subresource == "*" || subresource == info.subresource)
            }
        };
        named && (self.resources.is_empty() || self.resources.iter().any(one))
    }
}

/// Whether the bodies of a request hold what gives somebody a right.
fn is_secret(info: &RequestInfo) -> bool {
    info.is_resource_request
        && matches!(
            (info.api_group.as_str(), info.resource.as_str(), info.subresource.as_str()),
            ("", "secrets", _)
                | ("", "serviceaccounts", "token")
                | ("authentication.k8s.io", "tokenreviews", _)
        )
}

/// `*` at the end stands for anything.
fn covers(pattern: &str, path: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == path, |prefix| path.starts_with(prefix))
}
