//! Query parameters to options, checked with the errors of kube-apiserver; never touches an object.

use jiff::SignedDuration;
use litek8s_machinery::field::FieldError;
use litek8s_machinery::gvk::GroupKind;
use litek8s_machinery::status::Status;
use litek8s_machinery::table::IncludeObject;

use crate::request::Query;
use crate::response::Failure;

/// What to do with fields the schema does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and say so in `Warning` headers.
    Warn,
    /// Refuse the request.
    Strict,
}

/// The options of create, update and patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Nothing is stored.
    pub(crate) dry_run: bool,
    /// Who owns the fields, empty when not said.
    pub(crate) field_manager: String,
    /// What happens to unknown fields.
    pub(crate) field_validation: FieldValidation,
    /// Apply: take fields over from other managers.
    pub(crate) force: Option<bool>,
}

/// The longest name of a field manager.
const FIELD_MANAGER_MAX: usize = 128;

impl WriteOptions {
    /// Reads the options; `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`, `apply` whether it is a server-side apply.
    pub(crate) fn parse(query: &Query, kind: &str, apply: bool) -> Result<Self, Failure> {
        let mut errors = Vec::new();
        let field_manager = query.get("fieldManager").unwrap_or_default().to_owned();
        let force = (kind == "PatchOptions" && query.get("force").is_some()).then(|| query.flag("force"));
        if kind == "PatchOptions" {
            if apply && field_manager.is_empty() {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            if !apply && force.is_some() {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        if field_manager.len() > FIELD_MANAGER_MAX {
            errors.push(FieldError::too_long("fieldManager", FIELD_MANAGER_MAX));
        }
        for (at, bad) in field_manager.char_indices().filter(|(_, c)| c.is_control()) {
            let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(bad));
            errors.push(FieldError::invalid("fieldManager", field_manager.clone(), detail));
        }
        let dry_run = dry_run(query, &mut errors);
        let field_validation = match query.get("fieldValidation").unwrap_or_default() {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(FieldError::not_supported(
                    "fieldValidation",
                    other,
                    ["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        invalid_options(kind, errors)?;
        Ok(Self { dry_run, field_manager, field_validation, force })
    }

    /// The manager of the fields: the one named, or the part of the user agent before its first slash.
    pub(crate) fn manager(&self, user_agent: &str) -> String {
        if !self.field_manager.is_empty() {
            return self.field_manager.clone();
        }
        let mut name = String::new();
        for c in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()) {
            if name.len() + c.len_utf8() > FIELD_MANAGER_MAX {
                break;
            }
            name.push(c);
        }
        name
    }
}

/// Whether `dryRun=All` is given; any other value is an error.
pub(crate) fn dry_run(query: &Query, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = query.all("dryRun").filter(|v| !v.is_empty()).collect();
    for bad in values.iter().filter(|v| **v != "All") {
        errors.push(FieldError::not_supported("dryRun", *bad, ["All"]));
    }
    !values.is_empty()
}

/// 422 about an options object when there are errors.
pub(crate) fn invalid_options(kind: &str, errors: Vec<FieldError>) -> Result<(), Failure> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", &errors))
}

/// How a resource version of a list is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Exactly this state.
    Exact,
    /// This state or a later one.
    NotOlderThan,
}

/// The options of list and watch, without the selectors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    /// `resourceVersion`, empty when not given.
    pub(crate) resource_version: String,
    /// `resourceVersionMatch`
    pub(crate) version_match: Option<VersionMatch>,
    /// `limit`, 0 for all.
    pub(crate) limit: usize,
    /// `continue`, empty for the first page.
    pub(crate) continuation: String,
    /// `allowWatchBookmarks`
    pub(crate) bookmarks: bool,
    /// `sendInitialEvents`
    pub(crate) initial_events: Option<bool>,
    /// `timeoutSeconds`
    pub(crate) timeout: Option<SignedDuration>,
}

impl ListOptions {
    /// Reads and checks the options.
    pub(crate) fn parse(query: &Query, watch: bool) -> Result<Self, Failure> {
        let matching = query.get("resourceVersionMatch").unwrap_or_default();
        let options = Self {
            resource_version: query.get("resourceVersion").unwrap_or_default().to_owned(),
            version_match: match matching {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            limit: usize::try_from(integer(query, "limit")?.unwrap_or(0)).unwrap_or(0),
            continuation: query.get("continue").unwrap_or_default().to_owned(),
            bookmarks: query.flag("allowWatchBookmarks"),
            initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
            timeout: integer(query, "timeoutSeconds")?.filter(|s| *s > 0).map(SignedDuration::from_secs),
        };
        let errors = if watch { options.watch_errors(matching) } else { options.list_errors(matching) };
        invalid_options("ListOptions", errors)?;
        Ok(if watch && matching.is_empty() { options.meant_by_old_clients() } else { options })
    }

    /// A watch from "" or "0" without further wishes starts with what exists, and says when that is done.
    fn meant_by_old_clients(mut self) -> Self {
        if self.initial_events.is_none() && matches!(self.resource_version.as_str(), "" | "0") {
            self.initial_events = Some(true);
            self.version_match = Some(VersionMatch::NotOlderThan);
        }
        self
    }

    fn list_errors(&self, matching: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        const FIELD: &str = "resourceVersionMatch";
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            if !self.continuation.is_empty() {
                errors.push(FieldError::forbidden(
                    FIELD,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if self.version_match.is_none() {
                errors.push(FieldError::not_supported(FIELD, matching, ["Exact", "NotOlderThan", ""]));
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
        }
        if self.initial_events.is_some() {
            errors
                .push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self, matching: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        const FIELD: &str = "resourceVersionMatch";
        if self.initial_events.is_some() && self.version_match != Some(VersionMatch::NotOlderThan) {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(FIELD, detail));
        }
        if !matching.is_empty() {
            if self.initial_events.is_none() {
                let detail =
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            if self.version_match != Some(VersionMatch::NotOlderThan) {
                errors.push(FieldError::not_supported(FIELD, matching, ["NotOlderThan"]));
            }
            if !self.continuation.is_empty() {
                errors.push(FieldError::forbidden(
                    FIELD,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
        }
        errors
    }
}

/// The resource version of a get, list or watch as a number; `None` for "".
pub(crate) fn revision(text: &str) -> Result<Option<u64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        let error = FieldError::invalid("resourceVersion", text, detail);
        Status::bad_request(format!("invalid resource version: {error}"))
    })
}

/// What of the objects a table carries.
pub(crate) fn include_object(query: &Query) -> Result<IncludeObject, Failure> {
    match query.get("includeObject").unwrap_or_default() {
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "Object" => Ok(IncludeObject::Object),
        "None" => Ok(IncludeObject::None),
        other => {
            let detail = "must be 'Metadata', 'Object', 'None', or empty";
            let error = FieldError::invalid("includeObject", other, detail);
            Err(Status::bad_request(error.to_string()))
        }
    }
}

fn integer(query: &Query, name: &str) -> Result<Option<i64>, Failure> {
    let Some(text) = query.get(name).filter(|t| !t.is_empty()) else { return Ok(None) };
    text.parse()
        .map(Some)
        .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
}
