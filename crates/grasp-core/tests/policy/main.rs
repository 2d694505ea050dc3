//! The acceptance policy, row by row. `N` cites protocol-newest.md, `P` protocol.md, `D`
//! decisions.md and `T` threats.md.

#[cfg(test)]
mod announcements;
#[cfg(test)]
mod deletions;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod lasting;
#[cfg(test)]
mod membership;
#[cfg(test)]
mod related;
#[cfg(test)]
mod scale;
#[cfg(test)]
mod states;
#[cfg(test)]
mod world;
