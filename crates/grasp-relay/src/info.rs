//! The NIP-11 document: what this relay is and what it allows. Every number comes from the limits
//! that are enforced, so that the document cannot promise anything else.

use crate::{Limits, Rate};
use grasp_core::PubKey;
use serde::{Serialize, Serializer};

#[derive(Debug, Clone)]
pub struct Info {
    pub name: String,
    pub description: String,
    /// The relay's own key.
    pub pubkey: PubKey,
    pub software: String,
    pub version: String,
    pub supported_nips: Vec<u16>,
    /// `GRASP-01` and so on.
    pub supported_grasps: Vec<String>,
    pub repo_acceptance_criteria: String,
    /// Only where content is chosen for more than spam.
    pub curation: Option<String>,
    pub icon: Option<String>,
    /// New at every start and sent with every link we make: a server that finds its own is talking
    /// to itself under another name.
    pub instance: Option<String>,
}

/// The document as JSON.
pub fn document(info: &Info, limits: &Limits) -> String {
    let document = Document {
        name: &info.name,
        description: &info.description,
        pubkey: info.pubkey,
        own_key: info.pubkey,
        software: &info.software,
        version: &info.version,
        supported_nips: &info.supported_nips,
        supported_grasps: &info.supported_grasps,
        repo_acceptance_criteria: &info.repo_acceptance_criteria,
        curation: info.curation.as_deref(),
        icon: info.icon.as_deref(),
        instance: info.instance.as_deref(),
        limitation: Limitation::of(limits),
        git_limits: GitRates { requests_per_minute: limits.git_requests_per_ip.tokens },
        grasp: Further::of(limits),
    };
    // Strings, numbers and lists always serialise.
    serde_json::to_string(&document).unwrap_or_default()
}

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    description: &'a str,
    pubkey: PubKey,
    #[serde(rename = "self")]
    own_key: PubKey,
    software: &'a str,
    version: &'a str,
    supported_nips: &'a [u16],
    supported_grasps: &'a [String],
    repo_acceptance_criteria: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    curation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    limitation: Limitation,
    git_limits: GitRates,
    grasp: Further,
}

/// The fields NIP-11 knows.
#[derive(Serialize)]
struct Limitation {
    max_message_length: usize,
    max_subscriptions: usize,
    max_limit: u64,
    default_limit: u64,
    max_subid_length: usize,
    max_event_tags: usize,
    max_content_length: usize,
    created_at_upper_limit: u64,
    auth_required: bool,
    payment_required: bool,
    restricted_writes: bool,
}

impl Limitation {
    fn of(limits: &Limits) -> Self {
        Self {
            max_message_length: limits.message_bytes_max,
            max_subscriptions: limits.subscriptions_max,
            max_limit: limits.limit_max,
            default_limit: limits.limit_default,
            max_subid_length: limits.subid_chars_max,
            max_event_tags: limits.tags_max,
            max_content_length: limits.event_bytes_max,
            created_at_upper_limit: limits.created_at_ahead_secs_max,
            auth_required: false,
            payment_required: false,
            restricted_writes: true,
        }
    }
}

/// What one address may ask the git side for; mirrors go by this (S-56).
#[derive(Serialize)]
struct GitRates {
    requests_per_minute: u32,
}

/// The limits NIP-11 has no field for.
#[derive(Serialize)]
struct Further {
    max_event_bytes: usize,
    max_filters_per_req: usize,
    max_retained_filter_bytes: usize,
    max_retained_filter_bytes_per_ip: usize,
    max_connections_per_ip: u32,
    max_negentropy_sessions: usize,
    max_negentropy_items: usize,
    max_negentropy_rounds: u32,
    negentropy_frame_bytes: usize,
    max_auth_pubkeys: usize,
    max_bad_signatures: u32,
    #[serde(serialize_with = "rate")]
    events_per_ip: Rate,
    #[serde(serialize_with = "rate")]
    announcements_per_ip: Rate,
    #[serde(serialize_with = "rate")]
    new_repositories_per_ip: Rate,
}

impl Further {
    fn of(limits: &Limits) -> Self {
        Self {
            max_event_bytes: limits.event_bytes_max,
            max_filters_per_req: limits.filters_per_req_max,
            max_retained_filter_bytes: limits.retained_filter_bytes_max,
            max_retained_filter_bytes_per_ip: limits.retained_filter_bytes_per_ip_max,
            max_connections_per_ip: limits.connections_per_ip_max,
            max_negentropy_sessions: limits.neg_sessions_max,
            max_negentropy_items: limits.neg_items_max,
            max_negentropy_rounds: limits.neg_rounds_max,
            negentropy_frame_bytes: limits.neg_frame_bytes,
            max_auth_pubkeys: limits.auth_keys_max,
            max_bad_signatures: limits.bad_signatures_max,
            events_per_ip: limits.events_per_ip,
            announcements_per_ip: limits.announcements_per_ip,
            new_repositories_per_ip: limits.new_repositories_per_ip,
        }
    }
}

fn rate<S: Serializer>(rate: &Rate, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown {
        count: u32,
        seconds: u32,
        burst: u32,
    }
    Shown { count: rate.tokens, seconds: rate.per_ms / 1000, burst: rate.burst }.serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn info() -> Info {
        Info {
            name: "a \"name\"".into(),
            description: "text".into(),
            pubkey: PubKey::from_bytes([0xab; 32]),
            software: "https://example.com/graspd".into(),
            version: "0.1.0".into(),
            supported_nips: vec![1, 11, 77],
            supported_grasps: vec!["GRASP-01".into()],
            repo_acceptance_criteria: "None".into(),
            curation: None,
            icon: None,
            instance: None,
        }
    }

    fn parsed(info: &Info, limits: &Limits) -> Value {
        serde_json::from_str(&document(info, limits)).unwrap()
    }

    #[test]
    fn the_document_says_who_we_are() {
        let it = parsed(&info(), &Limits::default());
        assert_eq!(it["name"], "a \"name\"");
        assert_eq!(it["pubkey"], "ab".repeat(32));
        assert_eq!(it["self"], it["pubkey"]);
        assert_eq!(it["supported_nips"], json!([1, 11, 77]));
        assert_eq!(it["supported_grasps"], json!(["GRASP-01"]));
        assert_eq!(it["repo_acceptance_criteria"], "None");
        assert!(it.get("curation").is_none() && it.get("icon").is_none());
        assert!(it.get("instance").is_none());
        let curated = Info { curation: Some("mine".into()), icon: Some("i".into()), ..info() };
        let curated = Info { instance: Some("0f".into()), ..curated };
        let it = parsed(&curated, &Limits::default());
        assert_eq!((&it["curation"], &it["icon"]), (&json!("mine"), &json!("i")));
        assert_eq!(it["instance"], "0f");
    }

    #[test]
    fn every_number_is_the_one_that_is_enforced() {
        let limits = Limits { subscriptions_max: 7, filters_per_req_max: 3, ..Limits::default() };
        let it = parsed(&info(), &limits);
        let limitation = json!({
            "max_message_length": 1_048_576, "max_subscriptions": 7, "max_limit": 5_000,
            "default_limit": 5_000, "max_subid_length": 64, "max_event_tags": 5_000,
            "max_content_length": 262_144, "created_at_upper_limit": 900,
            "auth_required": false, "payment_required": false, "restricted_writes": true,
        });
        assert_eq!(it["limitation"], limitation);
        assert_eq!(it["grasp"]["max_filters_per_req"], 3);
        let events = json!({"count": 1_200, "seconds": 60, "burst": 2_400});
        assert_eq!(it["grasp"]["events_per_ip"], events);
        assert_eq!(it["git_limits"], json!({"requests_per_minute": 3_000}));
    }
}
