//! What the store promises, told through its public interface alone.

#[cfg(test)]
mod capacity;
#[cfg(test)]
mod consistency;
#[cfg(test)]
mod cursor;
#[cfg(test)]
mod order;
#[cfg(test)]
mod persistence;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod replacement;
#[cfg(test)]
mod spaces;
#[cfg(test)]
mod sweeps;
#[cfg(test)]
mod tombstones;
#[cfg(test)]
mod walk;
#[cfg(test)]
mod world;
