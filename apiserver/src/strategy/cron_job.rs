//! CronJobs: a schedule that can be read, by a time zone that is known.

use litek8s_machinery::field::FieldError;
use serde_json::Value;

use super::{Strategy, WriteContext};
use crate::endpoints::metadata;
use crate::reconcile::schedule::{Schedule, zone};

/// The longest name: the names of its Jobs are eleven characters longer, and still label values.
const NAME: usize = 52;

/// The behaviour of CronJobs.
pub(super) struct CronJob;

impl Strategy for CronJob {
    fn validate(&self, _: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let name = metadata::text(object, "name");
        if old.is_none() && name.len() > NAME {
            let detail = format!("must be no more than {NAME} characters");
            errors.push(FieldError::invalid("metadata.name", name, detail));
        }
        errors.extend(time_zone(&object["spec"]["timeZone"]));
        let schedule = object["spec"]["schedule"].as_str().unwrap_or_default();
        if schedule.contains("TZ") {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(FieldError::invalid("spec.schedule", schedule, detail));
        } else if !schedule.is_empty()
            && let Err(detail) = Schedule::parse(schedule, jiff::tz::TimeZone::UTC)
        {
            errors.push(FieldError::invalid("spec.schedule", schedule, detail));
        }
        errors
    }
}

fn time_zone(value: &Value) -> Option<FieldError> {
    let name = value.as_str()?;
    let detail = if name.is_empty() {
        "timeZone must be nil or non-empty string".to_owned()
    } else if name.eq_ignore_ascii_case("local") {
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned()
    } else {
        zone(Some(name)).err()?
    };
    Some(FieldError::invalid("spec.timeZone", name, detail))
}
