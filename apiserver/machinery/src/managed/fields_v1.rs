//! `fieldsV1`: a set as nested JSON objects with the keys `f:NAME`, `k:{KEYS}`, `v:VALUE`, `i:INDEX` and `.`.

use serde_json::{Map, Value};

use super::{EntryError, FieldSet, PathElement};

impl PathElement {
    fn to_key(&self) -> String {
        match self {
            PathElement::Field(name) => format!("f:{name}"),
            PathElement::Key(fields) => {
                let fields: Map<String, Value> = fields.iter().cloned().collect();
                format!("k:{}", Value::Object(fields))
            }
            PathElement::Value(value) => format!("v:{value}"),
            PathElement::Index(index) => format!("i:{index}"),
        }
    }

    /// `None` for a kind of step that this version does not know, which is dropped.
    fn from_key(key: &str) -> Result<Option<Self>, EntryError> {
        let malformed = || EntryError(format!("invalid path element {key:?}"));
        let Some((kind, text)) = key.split_once(':') else {
            return Err(EntryError(format!("missing colon: {key}")));
        };
        Ok(Some(match kind {
            "f" => PathElement::Field(text.to_owned()),
            "v" => PathElement::Value(serde_json::from_str(text).map_err(|_| malformed())?),
            "i" => PathElement::Index(text.parse().map_err(|_| malformed())?),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(text).map_err(|_| malformed())?;
                PathElement::Key(fields.into_iter().collect())
            }
            _ => return Ok(None),
        }))
    }
}

impl FieldSet {
    /// The `fieldsV1` object.
    pub fn to_json(&self) -> Value {
        self.encode(false)
    }

    fn encode(&self, is_member: bool) -> Value {
        let mut fields = Map::new();
        if is_member && !self.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for member in self.members().iter().filter(|m| self.below(m).is_none()) {
            fields.insert(member.to_key(), Value::Object(Map::new()));
        }
        for (element, child) in self.children() {
            fields.insert(element.to_key(), child.encode(self.members().contains(element)));
        }
        Value::Object(fields)
    }

    /// Reads a `fieldsV1` object.
    pub fn from_json(value: &Value) -> Result<Self, EntryError> {
        let Value::Object(fields) = value else {
            return Err(EntryError("fieldsV1 must be an object".to_owned()));
        };
        let mut set = FieldSet::default();
        for (key, below) in fields.iter().filter(|(key, _)| *key != ".") {
            let Some(element) = PathElement::from_key(key)? else { continue };
            let child = FieldSet::from_json(below)?;
            if child.is_empty() || below.get(".").is_some() {
                set.put_member(element.clone());
            }
            set.put_child(element, child);
        }
        Ok(set)
    }
}
