//! nf_tables over netlink: our table is written in one transaction and read back into the plan's model.
//!
//! Written here because no crate we can use expresses maps, concatenations and conntrack keys, and because reading a
//! large map with a general parser takes seconds.

mod constants;
mod encode;
mod expression;
mod read;
mod transaction;

pub(crate) use read::read_table;
pub(crate) use transaction::commit;
