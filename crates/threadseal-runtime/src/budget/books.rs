//! The rules of budgets, independent of the store.
//!
//! [`Books`] decides within one transaction that excludes all other writers of the same tree; a
//! [`Shelf`] finds and keeps rows.

use super::{Budget, Hold};
use crate::bounds::MAX_BUDGET_DEPTH;
use crate::money::{Nanos, Share};
use crate::status::Status;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// Word of a budget that has not ended.
pub(super) const ACTIVE: &str = "active";

/// Where rows are kept, within one transaction.
pub(super) trait Shelf {
    fn find(&self, thread: &str) -> Result<Option<Entry>, Error>;

    fn children(&self, thread: &str) -> Result<Vec<Entry>, Error>;

    fn add(&self, entry: &Entry, at: Timestamp) -> Result<(), Error>;

    /// Writes parent and ceiling of a row.
    fn reframe(&self, entry: &Entry) -> Result<(), Error>;

    /// Writes a row, and adds it to our table.
    fn save(&self, entry: &Entry, at: Timestamp) -> Result<(), Error>;

    /// The amount noted under a key of a thread.
    fn noted(&self, thread: &str, key: &str) -> Result<Option<Nanos>, Error>;

    fn note(&self, thread: &str, key: &str, amount: Nanos) -> Result<(), Error>;

    fn holds(&self, thread: &str) -> Result<Vec<Hold>, Error>;

    fn put_hold(&self, thread: &str, hold: &Hold) -> Result<(), Error>;

    fn drop_hold(&self, thread: &str, key: &str) -> Result<(), Error>;
}

/// One row, in billionths regardless of its writer.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) thread: String,
    pub(super) parent: Option<String>,
    pub(super) max: Option<Nanos>,
    pub(super) reserved: Nanos,
    pub(super) actual: Nanos,
    /// The thread's own spending, without its children.
    pub(super) own: Nanos,
    /// Held for requests that are under way.
    pub(super) held: Nanos,
    pub(super) status: String,
    /// Does our table have it?
    pub(super) ours: bool,
}

impl Entry {
    pub(super) fn is_active(&self) -> bool {
        self.status == ACTIVE
    }

    /// The amount that is set aside and not spent. A child in a row of Rye reports its spending to
    /// its parent only when it ends, and is then forgotten.
    pub(super) fn outstanding(&self) -> Nanos {
        match (self.ours, self.is_active()) {
            (true, _) => self.reserved.saturating_sub(self.actual),
            (false, true) => self.reserved,
            (false, false) => Nanos::ZERO,
        }
    }

    pub(super) fn shown(self, remaining: Nanos) -> Budget {
        Budget {
            parent: self.parent,
            max: self.max,
            reserved: self.reserved,
            actual: self.actual,
            remaining,
            status: self.status,
        }
    }
}

/// The ledger within one transaction.
pub(super) struct Books<S>(pub(super) S);

fn refused<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::refused(message.into()))
}

impl<S: Shelf> Books<S> {
    pub(super) fn register(&self, root: &ThreadId, max: Nanos, at: Timestamp) -> Result<(), Error> {
        self.open(root.as_str(), None, max, Nanos::ZERO, at)
    }

    pub(super) fn reserve(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        let remaining = self.left_to_give(parent)?;
        if remaining < amount {
            return refused(format!(
                "insufficient budget: {amount} dollars asked of {parent}, {remaining} remain"
            ));
        }
        self.open(child.as_str(), Some(parent.as_str()), amount, amount, at)
    }

    pub(super) fn reserve_share(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        most: Nanos,
        share: Share,
        at: Timestamp,
    ) -> Result<Nanos, Error> {
        let amount = share.of(self.left_to_give(parent)?).min(most);
        if amount == Nanos::ZERO && most != Nanos::ZERO {
            return refused("spend_exceeded: the parent has no money left");
        }
        self.open(child.as_str(), Some(parent.as_str()), amount, amount, at)?;
        Ok(amount)
    }

    pub(super) fn hold(
        &self,
        thread: &ThreadId,
        key: &str,
        least: Nanos,
        most: Nanos,
    ) -> Result<Option<Nanos>, Error> {
        let entry = self.known(thread.as_str())?;
        if !entry.is_active() {
            return refused(format!("the budget of {thread} has ended"));
        }
        if self.0.noted(thread.as_str(), key)?.is_some() {
            return refused(format!("{thread} has spent under {key:?} already"));
        }
        let holds = self.0.holds(thread.as_str())?;
        if let Some(known) = holds.into_iter().find(|hold| hold.key == key) {
            return Ok(Some(known.nanos));
        }
        let nanos = self.remaining(&entry)?.min(most);
        if nanos < least {
            return Ok(None);
        }
        let key = key.to_owned();
        self.0.put_hold(thread.as_str(), &Hold { key, nanos })?;
        Ok(Some(nanos))
    }

    pub(super) fn charge_holds(
        &self,
        thread: &ThreadId,
        at: Timestamp,
    ) -> Result<Vec<Hold>, Error> {
        self.known(thread.as_str())?;
        let holds = self.0.holds(thread.as_str())?;
        for hold in &holds {
            self.commit(thread, &hold.key, hold.nanos, at)?;
        }
        Ok(holds)
    }

    pub(super) fn commit(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<Budget, Error> {
        let mut entry = self.known(thread.as_str())?;
        self.0.drop_hold(thread.as_str(), key)?;
        if self.is_new(thread.as_str(), key, amount)? {
            entry.own = entry.own.saturating_add(amount);
            let mut line = self.ancestors(&entry)?;
            line.insert(0, entry);
            for entry in &mut line {
                entry.actual = entry.actual.saturating_add(amount);
                self.0.save(entry, at)?;
            }
            self.settle(&line, at)?;
        }
        let entry = self.known(thread.as_str())?;
        let remaining = self.remaining(&entry)?;
        Ok(entry.shown(remaining))
    }

    pub(super) fn release(
        &self,
        thread: &ThreadId,
        end: Status,
        at: Timestamp,
    ) -> Result<Nanos, Error> {
        if !end.is_terminal() && end != Status::Suspended {
            return Err(Error::invalid(format!(
                "{end} is not a final status of a thread"
            )));
        }
        self.charge_holds(thread, at)?;
        let entry = self.known(thread.as_str())?;
        if entry.status == end.as_str() {
            return Ok(Nanos::ZERO);
        }
        if !entry.is_active() && entry.status != Status::Suspended.as_str() {
            return refused(format!("the budget of {thread} has ended"));
        }
        self.end(entry, end.as_str(), at)
    }

    pub(super) fn transfer(
        &self,
        old: &ThreadId,
        new: &ThreadId,
        at: Timestamp,
    ) -> Result<Nanos, Error> {
        let entry = self.known(old.as_str())?;
        if !entry.is_active() {
            return refused(format!("the budget of {old} has ended"));
        }
        self.charge_holds(old, at)?;
        let entry = self.known(old.as_str())?;
        let parent = entry.parent.clone();
        let remaining = self.remaining(&entry)?;
        let freed = self.end(entry, Status::Continued.as_str(), at)?;
        // In rows of Rye, a child's ceiling may exceed the amount set aside for it.
        let (max, reserved) = match parent {
            Some(_) => (remaining.min(freed), remaining.min(freed)),
            None => (remaining, Nanos::ZERO),
        };
        self.open(new.as_str(), parent.as_deref(), max, reserved, at)?;
        Ok(max)
    }

    pub(super) fn put_back(
        &self,
        thread: &ThreadId,
        right: &Budget,
        at: Timestamp,
    ) -> Result<(), Error> {
        let found = self.0.find(thread.as_str())?;
        // Spent meanwhile.
        let now = found.as_ref().map(|found| found.actual);
        let actual = now.unwrap_or_default().max(right.actual);
        let spent = self.0.children(thread.as_str())?;
        let spent = spent.iter().map(|child| child.actual);
        let spent = spent.fold(Nanos::ZERO, Nanos::saturating_add);
        let entry = Entry {
            thread: thread.as_str().to_owned(),
            parent: right.parent.clone(),
            max: right.max,
            reserved: right.reserved,
            actual,
            own: actual.saturating_sub(spent),
            held: Nanos::ZERO,
            status: ACTIVE.to_owned(),
            ours: true,
        };
        match found {
            Some(_) => self.0.reframe(&entry)?,
            None => self.0.add(&entry, at)?,
        }
        self.0.save(&entry, at)
    }

    pub(super) fn get(&self, thread: &ThreadId) -> Result<Option<Budget>, Error> {
        let Some(entry) = self.0.find(thread.as_str())? else {
            return Ok(None);
        };
        let remaining = self.remaining(&entry)?;
        Ok(Some(entry.shown(remaining)))
    }

    fn known(&self, thread: &str) -> Result<Entry, Error> {
        match self.0.find(thread)? {
            Some(entry) => Ok(entry),
            None => refused(format!("{thread} has no budget")),
        }
    }

    /// What remains of an active thread.
    fn left_to_give(&self, parent: &ThreadId) -> Result<Nanos, Error> {
        let giver = self.known(parent.as_str())?;
        if !giver.is_active() {
            return refused(format!("the budget of {parent} has ended"));
        }
        self.remaining(&giver)
    }

    /// The outstanding of all children.
    fn promised(&self, entry: &Entry) -> Result<Nanos, Error> {
        let children = self.0.children(&entry.thread)?;
        let outstanding = children.iter().map(Entry::outstanding);
        Ok(outstanding.fold(Nanos::ZERO, Nanos::saturating_add))
    }

    fn remaining(&self, entry: &Entry) -> Result<Nanos, Error> {
        let spent = entry.actual.saturating_add(self.promised(entry)?);
        let spent = spent.saturating_add(entry.held);
        Ok(entry.max.unwrap_or_default().saturating_sub(spent))
    }

    /// All threads above `entry`, the nearest first.
    fn ancestors(&self, entry: &Entry) -> Result<Vec<Entry>, Error> {
        let mut line: Vec<Entry> = Vec::new();
        let mut next = entry.parent.clone();
        while let Some(parent) = next {
            let passed = line.iter().any(|above| above.thread == parent);
            if passed || parent == entry.thread || line.len() >= MAX_BUDGET_DEPTH {
                return refused(format!("the budgets above {} form a cycle", entry.thread));
            }
            // A parent that Rye has removed no longer takes part.
            let Some(above) = self.0.find(&parent)? else {
                break;
            };
            next = above.parent.clone();
            line.push(above);
        }
        Ok(line)
    }

    fn open(
        &self,
        thread: &str,
        parent: Option<&str>,
        max: Nanos,
        reserved: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        if self.0.find(thread)?.is_some() {
            return refused(format!("{thread} has a budget already"));
        }
        let entry = Entry {
            thread: thread.to_owned(),
            parent: parent.map(str::to_owned),
            max: Some(max),
            reserved,
            actual: Nanos::ZERO,
            own: Nanos::ZERO,
            held: Nanos::ZERO,
            status: ACTIVE.to_owned(),
            ours: true,
        };
        self.0.add(&entry, at)
    }

    /// Notes a spending; false when it was noted before.
    fn is_new(&self, thread: &str, key: &str, amount: Nanos) -> Result<bool, Error> {
        match self.0.noted(thread, key)? {
            Some(known) if known == amount => Ok(false),
            Some(known) => refused(format!(
                "{thread} has spent {} billionths under {key:?} already, not {}",
                known.get(),
                amount.get()
            )),
            None => self.0.note(thread, key, amount).map(|()| true),
        }
    }

    /// Ends a budget and returns the freed amount.
    fn end(&self, mut entry: Entry, status: &str, at: Timestamp) -> Result<Nanos, Error> {
        let before = entry.outstanding();
        status.clone_into(&mut entry.status);
        entry.reserved = entry.actual.saturating_add(self.promised(&entry)?);
        entry.ours = true;
        let freed = before.saturating_sub(entry.outstanding());
        self.0.save(&entry, at)?;
        let line = self.ancestors(&entry)?;
        self.settle(&line, at)?;
        Ok(freed)
    }

    /// Reduces the amount that ended threads of a line keep set aside: at most what their children
    /// may still spend.
    fn settle(&self, line: &[Entry], at: Timestamp) -> Result<(), Error> {
        for entry in line.iter().filter(|entry| !entry.is_active()) {
            let mut entry = entry.clone();
            entry.reserved = entry.actual.saturating_add(self.promised(&entry)?);
            self.0.save(&entry, at)?;
        }
        Ok(())
    }
}
