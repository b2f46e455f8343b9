//! Schemas that several fields share. What is wrong with a value is said in words a person can act on.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The longest address in text, an IPv6 address with an embedded IPv4 address.
const ADDRESS_LENGTH: u32 = 45;

/// `isCIDR`, and no leading zeros: some evaluators read `010.0.0.0/8` as 10.0.0.0/8, others as 8.0.0.0/8.
const STRICT_CIDR: &str = "isCIDR(self) && !self.matches('(^|[.])0[0-9]+[./]|/0[0-9]')";

/// An IP address of either family.
pub(crate) fn ip(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": ADDRESS_LENGTH,
        "x-kubernetes-validations": [{
            "rule": "isIP(self)",
            "message": "must be an IPv4 or IPv6 address such as 203.0.113.254, without leading zeros",
        }],
    })
}

/// A network of either family, host bits not set.
pub(crate) fn cidr(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": ADDRESS_LENGTH + 4,
        "x-kubernetes-validations": [
            {
                "rule": STRICT_CIDR,
                "message": "must be a network such as 203.0.113.0/24, without leading zeros",
            },
            {
                "rule": "!isCIDR(self) || cidr(self) == cidr(self).masked()",
                "message": "has bits set after the prefix length",
                "messageExpression":
                    "'has bits set after the prefix length; did you mean ' + string(cidr(self).masked()) + '?'",
            },
        ],
    })
}

/// Networks of either family, at most 64.
pub(crate) fn cidrs(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 64, "items": cidr(generator) })
}

/// An address with the prefix length of its network.
pub(crate) fn address_with_prefix(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": ADDRESS_LENGTH + 4,
        "x-kubernetes-validations": [{
            "rule": STRICT_CIDR,
            "message": "must be an address with its network's prefix length such as 203.0.113.10/24",
        }],
    })
}

/// The name of a network interface: Linux takes 15 bytes without `/` and white space (`dev_valid_name`).
pub(crate) fn interface(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 15,
        "x-kubernetes-validations": [{
            "rule": r"self.matches('^[^/:\\s]+$') && self != '.' && self != '..'",
            "message": "must be an interface name as Linux takes it: at most 15 characters, no '/', ':' or spaces",
        }],
    })
}

/// A mark or mask of a packet: 32 bits, not 0.
pub(crate) fn mark(_: &mut SchemaGenerator) -> Schema {
    integer(1, u32::MAX.into())
}

/// A route table that is not one of the kernel's own.
pub(crate) fn gateway_table(_: &mut SchemaGenerator) -> Schema {
    let mut schema = integer(1, u32::MAX.into());
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        serde_json::json!([{
            "rule": "self < 253 || self > 255",
            "message": "the tables 253 (default), 254 (main) and 255 (local) belong to the kernel",
        }]),
    );
    schema
}

/// A number of a route table; those of the kernel are skipped.
pub(crate) fn table(_: &mut SchemaGenerator) -> Schema {
    integer(1, u32::MAX.into())
}

/// A priority of a policy rule that comes after `local` (0) and before `main` (32766).
pub(crate) fn priority(_: &mut SchemaGenerator) -> Schema {
    integer(1, 32_765)
}

/// The number of something, at least 1.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    integer(1, u32::MAX.into())
}

/// A span in seconds, at most a day.
pub(crate) fn seconds(_: &mut SchemaGenerator) -> Schema {
    integer(0, 86_400)
}

/// The name of an object.
pub(crate) fn name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 253 })
}

/// Conditions, one a type, as `metav1.Condition`.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "description": "What is said, in CamelCase.",
                },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "Whether it is so.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The metadata.generation that was judged.",
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why, as one word for programs.",
                },
                "message": {
                    "type": "string",
                    "maxLength": 32768,
                    "description": "Why, for people.",
                },
            },
        },
    })
}

fn integer(minimum: i64, maximum: i64) -> Schema {
    json_schema!({ "type": "integer", "format": "int64", "minimum": minimum, "maximum": maximum })
}
