//! An immutable picture of the store at one revision, cheap to take and to keep.

use std::ops::Bound;
use std::sync::Arc;

use crate::command::Claim;
use crate::event::{Event, Expired};
use crate::frame::Frame;
use crate::history::History;
use crate::key::{GroupResource, Name, ObjectKey, Revision};
use crate::object::Object;

/// Everything at one revision, with the history that led to it.
///
/// A clone is one reference count. A view that is kept keeps the objects of its revision.
#[derive(Clone)]
pub struct View {
    inner: Arc<Inner>,
}

struct Inner {
    frame: Frame,
    history: History,
}

impl View {
    pub(crate) fn new(frame: Frame, history: History) -> Self {
        Self { inner: Arc::new(Inner { frame, history }) }
    }

    /// The revision of the view.
    pub fn revision(&self) -> Revision {
        self.inner.frame.revision
    }

    /// The object of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.inner.frame.get(key)
    }

    /// The objects of a resource, all or those of one namespace, by namespace and name.
    pub fn list(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &Arc<Object>> + use<'_> {
        let start = Name { namespace: namespace.unwrap_or_default().into(), name: "".into() };
        self.range(resource, namespace, Bound::Included(start))
    }

    /// As [`View::list`], from behind the object `(namespace, name)`: the next page.
    pub fn list_from(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        after: (&str, &str),
    ) -> impl Iterator<Item = &Arc<Object>> + use<'_> {
        let after = Name { namespace: after.0.into(), name: after.1.into() };
        let start = match namespace {
            Some(only) if after.namespace.as_ref() < only => {
                Bound::Included(Name { namespace: only.into(), name: "".into() })
            }
            Some(_) | None => Bound::Excluded(after),
        };
        self.range(resource, namespace, start)
    }

    fn range(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        start: Bound<Name>,
    ) -> impl Iterator<Item = &Arc<Object>> + use<'_> {
        let only: Option<Arc<str>> = namespace.map(Into::into);
        self.inner
            .frame
            .tables
            .get(resource)
            .into_iter()
            .flat_map(move |table| table.range((start.clone(), Bound::Unbounded)))
            .map(|(_, object)| object)
            .take_while(move |object| only.as_ref().is_none_or(|only| object.key.namespace == *only))
    }

    /// The exact view of an older revision, as far back as the history reaches.
    pub fn at(&self, revision: Revision) -> Result<View, Expired> {
        if revision == self.revision() {
            return Ok(self.clone());
        }
        let frame = self.inner.history.frame_at(&self.inner.frame, revision)?;
        Ok(View::new(frame, self.inner.history.clone()))
    }

    /// The next events of all resources behind `revision`, in order, at most `max`.
    ///
    /// Empty if there is none yet. [`Expired`] if events behind `revision` are gone.
    pub fn events_after(&self, revision: Revision, max: usize) -> Result<Vec<Arc<Event>>, Expired> {
        let oldest = self.oldest_event();
        if revision.saturating_add(1) < oldest {
            return Err(Expired {
                requested: revision,
                oldest: oldest.saturating_sub(1),
                current: self.revision(),
            });
        }
        Ok(self.inner.history.range(revision, self.revision(), max).cloned().collect())
    }

    /// As [`View::events_after`], of one resource. [`Expired`] only if events of this resource are gone.
    pub fn events_of(
        &self,
        resource: &GroupResource,
        revision: Revision,
        max: usize,
    ) -> Result<Vec<Arc<Event>>, Expired> {
        let current = self.revision();
        match self.inner.history.range_of(resource, revision, current, max) {
            Ok(events) => Ok(events.cloned().collect()),
            Err(oldest) => Err(Expired { requested: revision, oldest, current }),
        }
    }

    /// The revision of the oldest event held; one more than the view's if there is none.
    pub fn oldest_event(&self) -> Revision {
        let next = self.revision().saturating_add(1);
        self.inner.history.oldest().unwrap_or(next).min(next)
    }

    /// The objects that name `owner_uid` among their owners.
    pub fn dependents(&self, owner_uid: &str) -> impl Iterator<Item = &ObjectKey> + use<'_> {
        self.inner.frame.dependents.get(owner_uid).into_iter().flatten()
    }

    /// The resources of which there are objects, with how many.
    pub fn resources(&self) -> impl Iterator<Item = (&GroupResource, usize)> {
        self.inner.frame.tables.iter().map(|(resource, table)| (resource, table.len()))
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.inner.frame.tables.get(resource).map_or(0, |table| table.len())
    }

    /// Who holds a claim.
    pub fn claim_holder(&self, claim: &Claim) -> Option<&ObjectKey> {
        self.inner.frame.claims.get(claim)
    }

    /// All claims of a space with their holders, by value.
    pub fn claims(&self, space: &str) -> impl Iterator<Item = (&Claim, &ObjectKey)> + use<'_> {
        let space: Arc<str> = space.into();
        let start = Claim { space: space.clone(), value: "".into() };
        self.inner.frame.claims.range(start..).take_while(move |(claim, _)| claim.space == space)
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("revision", &self.revision()).finish_non_exhaustive()
    }
}
