//! `GET` of a collection: the state the resource version asks for, selected, in chunks.

use std::sync::Arc;

use litek8s_machinery::status::Status;
use litek8s_store::{Object, View};
use serde_json::{Value, json};

use super::continuation::Continuation;
use super::options::{self, ListOptions, VersionMatch};
use super::selection::Selection;
use super::{Call, answer, reads};
use crate::response::{Failure, Response};

/// How long the chunks of one list may take, in seconds. A client that is slower is told so, as it is by a
/// kube-apiserver, whose past is compacted every five minutes: it would finish a picture of what is long gone.
const LIST_LIFETIME: i64 = 300;

/// Answers the collection.
pub(crate) async fn list(call: &Call<'_>) -> Result<Response, Failure> {
    let options = ListOptions::parse(&call.ctx.info.query, false)?;
    let selection = Selection::parse(&call.served, &call.ctx.info)?;
    let start = Start::find(call, &options).await?;
    let page = start.page(call, &selection, options.limit);
    answer::list(call, &page.objects, page.metadata(&start, &selection))
}

/// The state a list is taken from, and the object it starts behind.
struct Start {
    view: View,
    after: Option<(String, String)>,
    /// When the first chunk was taken, in seconds since 1970.
    since: i64,
}

impl Start {
    async fn find(call: &Call<'_>, options: &ListOptions) -> Result<Self, Failure> {
        let replica = &call.api.replica;
        let since = call.api.clock.now().as_second();
        let revision = options::revision(&options.resource_version)?;
        if !options.continuation.is_empty() {
            return Self::resume(call, options, revision).await;
        }
        // A limit without a match pins an explicit revision, as it always did.
        let exact = options.version_match == Some(VersionMatch::Exact)
            || (options.version_match.is_none() && options.limit > 0);
        let view = match revision {
            Some(wanted) if wanted > 0 && exact => reads::exactly(replica, wanted).await?,
            other => reads::not_older_than(replica, other).await?,
        };
        Ok(Self { view, after: None, since })
    }

    async fn resume(call: &Call<'_>, options: &ListOptions, revision: Option<u64>) -> Result<Self, Failure> {
        if revision.is_some_and(|r| r > 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Continuation::decode(&options.continuation)?;
        let after = Some((token.namespace.clone(), token.name.clone()));
        let now = call.api.clock.now().as_second();
        let Some(pinned) = token.revision else {
            return Ok(Self { view: reads::newest(&call.api.replica).await?, after, since: now });
        };
        if now.saturating_sub(token.since) > LIST_LIFETIME {
            return Err(expired(&token));
        }
        match reads::exactly(&call.api.replica, pinned).await {
            Ok(view) => Ok(Self { view, after, since: token.since }),
            Err(status) if status.code == 410 => Err(expired(&token)),
            Err(status) => Err(status),
        }
    }

    fn page(&self, call: &Call<'_>, selection: &Selection, limit: usize) -> Page {
        let resource = &call.served.key;
        let namespace = Some(call.namespace()).filter(|n| !n.is_empty());
        let mut page = Page::default();
        if let (Some(name), Some(namespace)) = (selection.only_name(), scope(call, namespace)) {
            let found = self.view.get(&call.served.object_key(namespace, name));
            page.objects.extend(found.filter(|o| selection.matches(o)).cloned());
            return page;
        }
        let everything = selection.is_everything();
        let mut take = |objects: &mut dyn Iterator<Item = &Arc<Object>>| {
            for object in objects {
                if !everything && !selection.matches(object) {
                    continue;
                }
                if limit == 0 || page.objects.len() < limit {
                    page.objects.push(object.clone());
                    continue;
                }
                page.remaining += 1;
                // What is left is only counted where the count is told.
                if !everything {
                    break;
                }
            }
        };
        match &self.after {
            Some((ns, name)) => take(&mut self.view.list_from(resource, namespace, (ns, name))),
            None => take(&mut self.view.list(resource, namespace)),
        }
        page
    }
}

/// The namespace in which one name is one object; `None` when the name may be in many.
fn scope<'a>(call: &Call<'_>, namespace: Option<&'a str>) -> Option<&'a str> {
    if call.served.resource.namespaced { namespace } else { Some("") }
}

#[derive(Default)]
struct Page {
    objects: Vec<Arc<Object>>,
    /// How many follow; with selectors only whether any does.
    remaining: usize,
}

impl Page {
    fn metadata(&self, start: &Start, selection: &Selection) -> Value {
        let revision = start.view.revision();
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let Some(last) = self.objects.last().filter(|_| self.remaining > 0) {
            let token = Continuation {
                revision: Some(revision),
                since: start.since,
                namespace: last.key.namespace.to_string(),
                name: last.key.name.to_string(),
            };
            metadata["continue"] = Value::from(token.encode());
            if selection.is_everything() {
                metadata["remainingItemCount"] = Value::from(self.remaining);
            }
        }
        metadata
    }
}

/// 410 with a token that goes on behind the last object, at the newest state.
fn expired(token: &Continuation) -> Failure {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of \
         the results. Continuing with the provided token results in an inconsistent list - objects that were \
         created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = Some(Continuation { revision: None, ..token.clone() }.encode().into());
    status
}
