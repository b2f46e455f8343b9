//! The `authorizer` of admission expressions: what somebody may do, asked step by step.

use std::fmt;
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, Value};
use litek8s_store::View;

use crate::api::Api;
use crate::authorization::{Attributes, Decision};
use crate::request::UserInfo;

/// The names of the functions here; rules of custom resources have no authorizer to call them on.
pub(crate) const FUNCTIONS: [&str; 12] = [
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "serviceAccount",
    "check",
    "allowed",
    "errored",
    "error",
    "reason",
];

/// A question that is being put together.
#[derive(Clone)]
pub(crate) struct Question {
    api: Arc<Api>,
    view: View,
    user: UserInfo,
    path: Option<String>,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

impl Question {
    /// About what `user` may do.
    pub(crate) fn about(api: &Arc<Api>, view: &View, user: &UserInfo) -> Self {
        Self {
            api: api.clone(),
            view: view.clone(),
            user: user.clone(),
            path: None,
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
        }
    }

    /// The same about one resource.
    pub(crate) fn of_resource(mut self, wanted: &Attributes<'_>) -> Self {
        self.group = wanted.group.to_owned();
        self.resource = wanted.resource.to_owned();
        self.subresource = wanted.subresource.to_owned();
        self.namespace = wanted.namespace.to_owned();
        self.name = wanted.name.to_owned();
        self
    }

    /// As a value of an expression.
    pub(crate) fn into_value(self) -> Value {
        Value::Opaque(Arc::new(self))
    }

    fn answer(&self, verb: &str) -> Answer {
        let wanted = match &self.path {
            Some(path) => Attributes { verb, path, ..Attributes::default() },
            None => Attributes {
                verb,
                namespace: &self.namespace,
                group: &self.group,
                resource: &self.resource,
                subresource: &self.subresource,
                name: &self.name,
                path: "",
                is_resource: true,
            },
        };
        match self.api.authorizer.authorize(&self.user, &wanted, &self.view) {
            Decision::Allow(reason) => Answer { allowed: true, reason },
            Decision::Deny(reason) => Answer { allowed: false, reason },
        }
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("user", &self.user.name).field("resource", &self.resource).finish()
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        let parts = |q: &Self| {
            let texts = [&q.group, &q.resource, &q.subresource, &q.namespace, &q.name].map(String::clone);
            (q.user.clone(), q.path.clone(), texts)
        };
        parts(self) == parts(other)
    }
}

impl Eq for Question {}

impl Opaque for Question {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Authorizer"
    }
}

/// What the authorizer said.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    allowed: bool,
    reason: String,
}

impl Opaque for Answer {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Decision"
    }
}

type Result<T> = std::result::Result<T, ExecutionError>;

/// The functions of authorizers and their decisions.
pub(crate) fn register(context: &mut Context<'_>) {
    fn step(this: &Value, change: impl FnOnce(&mut Question)) -> Result<Value> {
        let mut question = find::<Question>(this)?.clone();
        change(&mut question);
        Ok(question.into_value())
    }
    context.add_function("path", |This(this): This<Value>, text: Arc<String>| {
        step(&this, |q| q.path = Some(text.to_string()))
    });
    context.add_function("group", |This(this): This<Value>, text: Arc<String>| {
        step(&this, |q| q.group = text.to_string())
    });
    context.add_function("resource", |This(this): This<Value>, text: Arc<String>| {
        step(&this, |q| q.resource = text.to_string())
    });
    context.add_function("subresource", |This(this): This<Value>, text: Arc<String>| {
        step(&this, |q| q.subresource = text.to_string())
    });
    context.add_function("namespace", |This(this): This<Value>, text: Arc<String>| {
        step(&this, |q| q.namespace = text.to_string())
    });
    context.add_function("name", |This(this): This<Value>, text: Arc<String>| {
        step(&this, |q| q.name = text.to_string())
    });
    context.add_function(
        "serviceAccount",
        |This(this): This<Value>, namespace: Arc<String>, name: Arc<String>| {
            let all = format!("system:serviceaccounts:{namespace}");
            let groups = ["system:serviceaccounts".to_owned(), all, crate::request::AUTHENTICATED.to_owned()];
            let user = UserInfo::new(format!("system:serviceaccount:{namespace}:{name}"), groups);
            step(&this, |q| q.user = user)
        },
    );
    context.add_function("check", |This(this): This<Value>, verb: Arc<String>| {
        let answer = find::<Question>(&this)?.answer(&verb);
        Ok::<_, ExecutionError>(Value::Opaque(Arc::new(answer)))
    });
    context.add_function("allowed", |This(this): This<Value>| {
        find::<Answer>(&this).map(|answer| Value::Bool(answer.allowed))
    });
    context.add_function("reason", |This(this): This<Value>| {
        find::<Answer>(&this).map(|answer| Value::String(Arc::new(answer.reason.clone())))
    });
    context
        .add_function("errored", |This(this): This<Value>| find::<Answer>(&this).map(|_| Value::Bool(false)));
    context.add_function("error", |This(this): This<Value>| {
        find::<Answer>(&this).map(|_| Value::String(Arc::default()))
    });
}

fn find<T: 'static>(value: &Value) -> Result<&T> {
    let found = if let Value::Opaque(opaque) = value { opaque.downcast_ref::<T>() } else { None };
    found.ok_or(ExecutionError::NoSuchOverload)
}
