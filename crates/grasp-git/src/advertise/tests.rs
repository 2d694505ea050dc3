use super::*;
use crate::refs::Entry;
use grasp_core::{EventId, Oid};

const AGENT_LEN: usize = AGENT.len();

#[test]
fn only_the_two_values_git_sends_choose_a_protocol() {
    assert_eq!(Protocol::from_header(Some("version=1")), Protocol::V1);
    assert_eq!(Protocol::from_header(Some("version=2")), Protocol::V2);
    for other in
        ["", "version=0", "version=3", "version=2:x=y", " version=2", "Version=2", "x=y:version=2"]
    {
        assert_eq!(Protocol::from_header(Some(other)), Protocol::V0, "{other:?}");
    }
    assert_eq!(Protocol::from_header(None), Protocol::V0);
    assert_eq!(Protocol::V2.for_service(Service::ReceivePack), Protocol::V0);
    assert_eq!(Protocol::V1.for_service(Service::ReceivePack), Protocol::V1);
    assert_eq!(Protocol::V2.for_service(Service::UploadPack), Protocol::V2);
}

#[test]
fn services_are_known_by_gits_names() {
    for service in [Service::UploadPack, Service::ReceivePack] {
        assert_eq!(Service::from_name(service.name()), Some(service));
        for content_type in [advertisement_type, request_type, result_type] {
            assert!(content_type(service).starts_with("application/x-"));
            assert!(content_type(service).contains(service.name()));
        }
    }
    assert_eq!(Service::from_name("git-upload-archive"), None);
}

#[test]
fn an_empty_repository_still_tells_its_capabilities() {
    let refs = RefTable::default();
    let body = shown(Service::UploadPack, Protocol::V0, &refs);
    let caps = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since \
        deepen-not deepen-relative no-progress include-tag multi_ack_detailed \
        allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done filter object-format=sha1";
    let line = format!("{} capabilities^{{}}\0{caps} {AGENT}\n", "0".repeat(40));
    let head = "001e# service=git-upload-pack\n0000";
    assert_eq!(body, format!("{head}{:04x}{line}0000", line.len() + 4));
    let body = shown(Service::ReceivePack, Protocol::V0, &refs);
    let caps = "report-status report-status-v2 delete-refs side-band-64k quiet atomic ofs-delta \
        object-format=sha1";
    let line = format!("{} capabilities^{{}}\0{caps} {AGENT}\n", "0".repeat(40));
    let head = "001f# service=git-receive-pack\n0000";
    assert_eq!(body, format!("{head}{:04x}{line}0000", line.len() + 4));
}

#[test]
fn a_fetching_client_sees_head_first_then_all_names_in_order_with_what_tags_point_to() {
    let body = shown(Service::UploadPack, Protocol::V0, &table());
    let names: Vec<_> = body.lines().skip(1).map(name_of).collect();
    let proposal = format!("refs/nostr/{}", EventId::from_bytes([7; 32]));
    assert_eq!(
        names,
        [
            "HEAD",
            "refs/heads/a",
            "refs/heads/a/b",
            "refs/heads/main",
            &proposal,
            "refs/tags/v1",
            "refs/tags/v1^{}",
            ""
        ]
    );
    assert!(body.contains(" no-done symref=HEAD:refs/heads/main filter "));
    assert!(!body.contains("refs/internal"));
}

#[test]
fn version_1_only_says_so_first() {
    let v0 = shown(Service::UploadPack, Protocol::V0, &table());
    let v1 = shown(Service::UploadPack, Protocol::V1, &table());
    assert_eq!(v1, v0.replacen("\n0000", "\n0000000eversion 1\n", 1));
}

#[test]
fn version_2_tells_what_it_can_do_and_no_refs() {
    let body = shown(Service::UploadPack, Protocol::V2, &table());
    let agent = format!("{:04x}{AGENT}\n", AGENT_LEN + 5);
    let rest = "000cls-refs\n0027fetch=shallow wait-for-done filter\n0012server-option\n\
        0017object-format=sha1\n0000";
    assert_eq!(body, format!("001e# service=git-upload-pack\n0000000eversion 2\n{agent}{rest}"));
}

#[test]
fn a_pushing_client_sees_refs_and_nothing_else() {
    let body = shown(Service::ReceivePack, Protocol::V2, &table());
    let names: Vec<_> = body.lines().skip(1).map(name_of).collect();
    let proposal = format!("refs/nostr/{}", EventId::from_bytes([7; 32]));
    let shown = ["refs/heads/a", "refs/heads/a/b", "refs/heads/main", &proposal, "refs/tags/v1"];
    assert_eq!(names, [&shown[..], &[""]].concat());
    assert!(!body.contains(".have") && !body.contains("symref"));
}

#[test]
fn a_head_whose_branch_is_not_there_is_not_mentioned() {
    let refs = RefTable { head: Some("refs/heads/gone".parse().unwrap()), ..table() };
    let body = shown(Service::UploadPack, Protocol::V0, &refs);
    assert!(!body.contains("HEAD"));
    let refs = RefTable { head: None, ..table() };
    assert!(shown(Service::UploadPack, Protocol::V0, &refs).contains("HEAD:refs/heads/main"));
}

fn name_of(line: &str) -> &str {
    let line = line.split('\0').next().unwrap_or_default();
    line.rsplit_once(' ').map_or("", |(_, name)| name)
}

fn shown(service: Service, protocol: Protocol, refs: &RefTable) -> String {
    String::from_utf8(advertisement(service, protocol, refs).to_vec()).unwrap()
}

fn table() -> RefTable {
    let oid = |byte| Oid::from_bytes([byte; 20]);
    let entry = |byte| Entry { oid: oid(byte), peeled: None };
    let tag = Entry { oid: oid(5), peeled: Some(oid(1)) };
    let governed = [
        ("refs/tags/v1", tag),
        ("refs/heads/main", entry(1)),
        ("refs/heads/a", entry(2)),
        ("refs/heads/a/b", entry(3)),
    ];
    RefTable {
        governed: governed.map(|(name, entry)| (name.parse().unwrap(), entry)).into(),
        proposals: [(EventId::from_bytes([7; 32]), entry(4))].into(),
        kept: [oid(9)].into(),
        head: Some("refs/heads/main".parse().unwrap()),
    }
}
