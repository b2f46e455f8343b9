//! One resource in one version, as requests find it; never reads the store.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use litek8s_machinery::gvk::GroupVersion;
use litek8s_machinery::resource::Resource;
use litek8s_machinery::status::Status;
use litek8s_store::{GroupResource, Object, ObjectKey};
use serde_json::Value;

use super::CustomVersion;
use crate::response::Failure;
use crate::strategy::Strategy;
use crate::watch::Encodings;

/// A resource in one version, with what it does.
pub struct Served {
    /// The descriptor.
    pub resource: Arc<Resource>,
    /// The key of its objects in the store.
    pub key: GroupResource,
    /// `v1` or `GROUP/VERSION`.
    pub api_version: Arc<str>,
    /// What is stored in `apiVersion`.
    pub storage_version: Arc<str>,
    /// Its behaviour.
    pub strategy: Arc<dyn Strategy>,
    /// The encodings its watchers share.
    pub(crate) encodings: Encodings,
    /// What stored JSON of this version starts with: objects that start otherwise are converted.
    prefix: Vec<u8>,
}

impl Served {
    /// A built-in resource: stored in the version it is served in, unless its row names another kind.
    pub(crate) fn builtin(resource: Arc<Resource>, strategy: Arc<dyn Strategy>) -> Self {
        let storage = match &resource.stored {
            Some(stored) => stored.kind.api_version(),
            None => resource.api_version(),
        };
        Self::new(resource, storage, strategy)
    }

    /// A version of a custom resource.
    pub(crate) fn custom(version: &CustomVersion) -> Self {
        let storage = GroupVersion::new(version.resource.group.clone(), version.storage_version.clone());
        Self::new(version.resource.clone(), storage.to_string(), version.strategy.clone())
    }

    fn new(resource: Arc<Resource>, storage: String, strategy: Arc<dyn Strategy>) -> Self {
        let api_version = resource.api_version();
        let key = match &resource.stored {
            Some(stored) => GroupResource::new(&stored.resource.group, &stored.resource.resource),
            None => GroupResource::new(&resource.group, &resource.plural),
        };
        Self {
            key,
            prefix: format!("{{\"apiVersion\":{},", Value::from(&*api_version)).into_bytes(),
            storage_version: Arc::from(storage),
            api_version: Arc::from(api_version),
            strategy,
            encodings: Encodings::default(),
            resource,
        }
    }

    /// The key of an object.
    pub fn object_key(&self, namespace: &str, name: &str) -> ObjectKey {
        let namespace = if self.resource.namespaced { namespace } else { "" };
        ObjectKey { resource: self.key.clone(), namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    /// Whether this version shows the object exactly as it is stored.
    pub(crate) fn is_stored_form(&self, object: &Object) -> bool {
        !self.strategy.rewrites_reads() && object.json.starts_with(&self.prefix)
    }

    /// The object as this version shows it; the stored bytes themselves whenever nothing has to change.
    pub fn read<'a>(&self, object: &'a Object) -> Result<Cow<'a, Bytes>, Failure> {
        if self.is_stored_form(object) {
            return Ok(Cow::Borrowed(&object.json));
        }
        Ok(Cow::Owned(Bytes::from(self.value(object)?.to_string())))
    }

    /// The object as this version shows it, parsed.
    pub fn value(&self, object: &Object) -> Result<Value, Failure> {
        self.shown(parsed(object)?)
    }

    /// What this version shows for a stored value.
    pub(crate) fn shown(&self, mut value: Value) -> Result<Value, Failure> {
        if value["apiVersion"] != *self.api_version {
            self.convert(&mut value, &self.api_version)?;
        }
        self.show(&mut value);
        Ok(value)
    }

    /// As [`Self::value`] of each; those that somebody else converts are converted together.
    pub(crate) fn values(&self, objects: &[Arc<Object>]) -> Result<Vec<Value>, Failure> {
        self.all(objects, |shown| shown, |object| self.value(object))
    }

    /// As [`Self::read`] of each; those that somebody else converts are converted together.
    pub(crate) fn read_all(&self, objects: &[Arc<Object>]) -> Result<Vec<Bytes>, Failure> {
        let encoded = |shown: Value| Bytes::from(shown.to_string());
        self.all(objects, encoded, |object| self.read(object).map(Cow::into_owned))
    }

    fn all<T>(
        &self,
        objects: &[Arc<Object>],
        converted: impl Fn(Value) -> T,
        own: impl Fn(&Object) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        if !self.strategy.converts() {
            return objects.iter().map(|object| own(object)).collect();
        }
        let is_other = |object: &Object| !object.json.starts_with(&self.prefix);
        let others = objects.iter().filter(|object| is_other(object));
        let others = others.map(|object| parsed(object)).collect::<Result<Vec<_>, _>>()?;
        let others: Vec<&Value> = others.iter().collect();
        let shown = self.strategy.convert(&others, &self.api_version).unwrap_or_else(|| Ok(Vec::new()))?;
        let mut shown = shown.into_iter();
        let one = |object: &Arc<Object>| match is_other(object).then(|| shown.next()).flatten() {
            Some(mut value) => {
                self.show(&mut value);
                Ok(converted(value))
            }
            None => own(object),
        };
        objects.iter().map(one).collect()
    }

    fn convert(&self, value: &mut Value, to: &str) -> Result<(), Failure> {
        if let Some(converted) = self.strategy.convert(&[&*value], to) {
            *value = converted?.pop().unwrap_or_default();
        }
        Ok(())
    }

    /// Turns a stored value into what this version shows.
    fn show(&self, value: &mut Value) {
        let is_other = value["apiVersion"] != *self.api_version;
        if let Some(stored) = self.resource.stored.as_ref().filter(|_| is_other) {
            rename(value, stored.renames.iter().map(|(ours, theirs)| (&**theirs, &**ours)));
        }
        value["apiVersion"] = Value::from(&*self.api_version);
        if self.strategy.rewrites_reads() {
            self.strategy.on_read(value);
        }
    }

    /// The bytes to store for what this version shows, which becomes what is stored: without a resource version, in
    /// the storage version.
    pub(crate) fn stored(&self, value: &mut Value) -> Result<Bytes, Failure> {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        if let Some(stored) = &self.resource.stored {
            rename(value, stored.renames.iter().map(|(ours, theirs)| (&**ours, &**theirs)));
        }
        if self.api_version != self.storage_version {
            self.convert(value, &self.storage_version)?;
        }
        value["apiVersion"] = Value::from(&*self.storage_version);
        Ok(Bytes::from(value.to_string()))
    }
}

fn parsed(object: &Object) -> Result<Value, Failure> {
    serde_json::from_slice(&object.json)
        .map_err(|error| Status::internal(format!("{} cannot be read: {error}", object.key.name)))
}

fn rename<'a>(value: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(map) = value.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(moved) = map.remove(from) {
            map.insert(to.to_owned(), moved);
        }
    }
}
