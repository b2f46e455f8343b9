//! Writes of this process itself, by the same verbs as a client's: defaulted, admitted, validated and charged alike.
//! Nobody is asked whether they may.

use std::sync::Arc;

use http::HeaderMap;
use litek8s_machinery::status::Status;
use litek8s_store::Object;
use serde_json::Value;

use super::create::create_object;
use super::delete::delete_object;
use super::delete_options::{DeleteOptions, Preconditions};
use super::options::{FieldValidation, WriteOptions};
use super::update::{Proposal, change};
use super::write::{Writing, Written};
use super::{Call, input, metadata};
use crate::api::Api;
use crate::registry::Served;
use crate::request::{Annotations, RequestContext, RequestInfo, UserInfo, Warnings};
use crate::response::{Failure, Output};

/// Who writes from within.
pub(crate) struct Internal<'a> {
    /// The server.
    pub(crate) api: &'a Arc<Api>,
    /// As whom.
    pub(crate) user: &'a UserInfo,
    /// The name that owns the written fields.
    pub(crate) manager: &'a str,
    /// The only term in which anything is written.
    pub(crate) term: u64,
}

impl Internal<'_> {
    /// Creates an object in its own namespace.
    pub(crate) async fn create(
        &self,
        served: &Arc<Served>,
        mut object: Value,
    ) -> Result<Arc<Object>, Failure> {
        let ctx = self.context(served, "create", "", &object);
        settle(served, &mut object)?;
        let call = self.call(served, &ctx);
        match create_object(&self.writing(&call), object, false).await? {
            Written::Stored { object, .. } => Ok(object),
            Written::Shown { .. } => Err(Status::internal("nothing was stored")),
        }
    }

    /// Replaces the object, or what `subresource` is of it, if it still has the resource version of `object`.
    pub(crate) async fn update(
        &self,
        served: &Arc<Served>,
        subresource: &str,
        mut object: Value,
    ) -> Result<(), Failure> {
        let ctx = self.context(served, "update", subresource, &object);
        settle(served, &mut object)?;
        let call = self.call(served, &ctx);
        let proposal = |_: Option<&Value>| Ok(Proposal { object: object.clone(), owned: false });
        change(&self.writing(&call), false, proposal).await.map(drop)
    }

    /// Deletes the object with the uid of `object`; `at_once` without its grace.
    pub(crate) async fn delete(
        &self,
        served: &Arc<Served>,
        object: &Object,
        propagation: &str,
        at_once: bool,
    ) -> Result<(), Failure> {
        let mut ctx = self.context(served, "delete", "", &Value::Null);
        ctx.info.namespace = object.key.namespace.to_string();
        ctx.info.name = object.key.name.to_string();
        let options = DeleteOptions {
            preconditions: Some(Preconditions { uid: Some(object.meta.uid.clone()), resource_version: None }),
            grace_period_seconds: at_once.then_some(0),
            propagation_policy: (!propagation.is_empty()).then(|| propagation.to_owned()),
            ..DeleteOptions::default()
        };
        let call = self.call(served, &ctx);
        let writing = self.writing(&call);
        delete_object(&writing, &object.key.name, &object.key.namespace, &options).await.map(drop)
    }

    fn context(&self, served: &Served, verb: &str, subresource: &str, object: &Value) -> RequestContext {
        let resource = &served.resource;
        let info = RequestInfo {
            is_resource_request: true,
            verb: verb.to_owned(),
            api_group: resource.group.to_string(),
            api_version: resource.version.to_string(),
            namespace: metadata::text(object, "namespace").to_owned(),
            resource: resource.plural.to_string(),
            subresource: subresource.to_owned(),
            name: metadata::text(object, "name").to_owned(),
            ..RequestInfo::default()
        };
        RequestContext {
            info,
            user: self.user.clone(),
            bound_term: Some(self.term),
            audit_id: String::new(),
            warnings: Warnings::default(),
            annotations: Annotations::default(),
            deadline: None,
        }
    }

    fn call<'b>(&'b self, served: &Arc<Served>, ctx: &'b RequestContext) -> Call<'b> {
        static NO_HEADERS: std::sync::LazyLock<HeaderMap> = std::sync::LazyLock::new(HeaderMap::new);
        Call { api: self.api, ctx, headers: &NO_HEADERS, served: served.clone(), output: Output::JSON }
    }

    fn writing<'b>(&self, call: &'b Call<'b>) -> Writing<'b> {
        let options = WriteOptions {
            dry_run: false,
            field_manager: self.manager.to_owned(),
            field_validation: FieldValidation::Ignore,
            force: None,
        };
        Writing::new(call, options)
    }
}

/// The object as a body would have brought it.
fn settle(served: &Served, object: &mut Value) -> Result<(), Failure> {
    let resource = &served.resource;
    input::settle_type(object, &resource.group, &resource.version, &resource.kind)?;
    input::refine(resource, object);
    Ok(())
}
