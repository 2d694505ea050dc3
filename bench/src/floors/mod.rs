//! What this machine could do at best, measured with as little code as possible in the same run.

pub(crate) mod cgi;
pub(crate) mod commit;
pub(crate) mod echo;
pub(crate) mod scan;
pub(crate) mod schnorr;
