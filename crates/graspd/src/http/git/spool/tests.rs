use super::pack::RING_WAIT_MAX;
use super::*;
use crate::http::git::rate::RateMeter;
use grasp_core::PubKey;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use tempfile::TempDir;

const STEP: usize = ROOM_STEP_BYTES as usize;

fn payer(last: u8) -> Payer {
    Payer::Address(IpAddr::V4(Ipv4Addr::new(203, 0, 113, last)).into())
}

fn spool_of(steps: u64, disk: DiskReserve) -> (PackSpool, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().to_owned();
    let place = SpoolPlace { directory, bytes_max: steps * ROOM_STEP_BYTES, disk };
    (PackSpool::new(place), home)
}

fn key(number: u8, shown: &Arc<Shown>) -> SpoolKey {
    let identifier = format!("r{number}").parse().unwrap();
    let repo = RepoId { owner: PubKey::from_bytes([7; 32]), identifier };
    SpoolKey::new(repo, Protocol::V2, Bytes::from_static(b"request"), shown)
}

/// Bytes that tell where they belong.
fn content(len: usize) -> Vec<u8> {
    (0..len.div_ceil(8)).flat_map(|at| (at as u64).to_le_bytes()).take(len).collect()
}

/// The first request of its kind.
async fn open(
    spool: &PackSpool,
    key: SpoolKey,
    shown: &Arc<Shown>,
) -> Option<(PackWriter, PackReader)> {
    let (reader, writer) = spool.open(key, Arc::clone(shown), payer(1)).await?;
    Some((writer.expect("a new pack"), reader))
}

async fn fill(writer: &PackWriter, bytes: &[u8]) {
    let meter = RateMeter::default();
    for piece in bytes.chunks(100_000) {
        writer.write(Bytes::copy_from_slice(piece), &meter).await.unwrap();
    }
}

async fn read_all(mut reader: PackReader) -> Result<Vec<u8>, SpoolError> {
    let mut all = Vec::new();
    while let Some(piece) = reader.next().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

#[tokio::test]
async fn readers_follow_one_writer_and_later_ones_find_the_whole_pack() {
    let (spool, _home) = spool_of(16, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    let key = key(1, &shown);
    let (writer, first) = open(&spool, key.clone(), &shown).await.unwrap();
    let first = tokio::spawn(read_all(first));
    let bytes = content(1_000_000);
    fill(&writer, &bytes[..600_000]).await;
    assert!(!writer.is_shared());
    let second = tokio::spawn(read_all(spool.join(&key, payer(2)).unwrap()));
    assert!(writer.is_shared());
    fill(&writer, &bytes[600_000..]).await;
    writer.finish(Ok(()));
    assert_eq!(first.await.unwrap().unwrap(), bytes);
    assert_eq!(second.await.unwrap().unwrap(), bytes);
    let third = spool.join(&key, payer(3)).unwrap();
    assert_eq!(read_all(third).await.unwrap(), bytes);
    let other = Arc::<Shown>::default();
    let moved = SpoolKey { shown_at: Arc::as_ptr(&other) as usize, ..key };
    assert!(spool.join(&moved, payer(1)).is_none(), "other refs, another answer");
}

#[tokio::test]
async fn requests_that_come_at_the_same_time_have_one_writer() {
    let (spool, _home) = spool_of(16, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    let opening = (0..8).map(|_| spool.open(key(1, &shown), Arc::clone(&shown), payer(1)));
    let opened = futures_util::future::join_all(opening).await;
    let writers = opened.iter().flatten().filter(|(_, writer)| writer.is_some());
    assert_eq!((opened.iter().flatten().count(), writers.count()), (8, 1));
}

#[tokio::test]
async fn a_failure_of_git_ends_every_reader_with_an_error_after_what_was_written() {
    let (spool, _home) = spool_of(16, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    for is_told in [true, false] {
        let key = key(u8::from(is_told), &shown);
        let (writer, one) = open(&spool, key.clone(), &shown).await.unwrap();
        let two = spool.join(&key, payer(1)).unwrap();
        fill(&writer, &content(500_000)).await;
        match is_told {
            true => writer.finish(Err(SpoolError::Unfinished)),
            false => drop(writer),
        }
        for reader in [one, two] {
            assert_eq!(read_all(reader).await, Err(SpoolError::Unfinished));
        }
        assert!(spool.join(&key, payer(1)).is_none(), "the next request begins anew");
    }
}

#[tokio::test]
async fn a_reader_learns_whether_a_pack_failed_before_its_first_byte() {
    let (spool, _home) = spool_of(16, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    for (number, bytes) in [(1, 0), (2, 1_000)] {
        let key = key(number, &shown);
        let (writer, _first) = open(&spool, key.clone(), &shown).await.unwrap();
        let joined = spool.join(&key, payer(2)).unwrap();
        let begun = tokio::spawn(async move { joined.has_begun().await });
        fill(&writer, &content(bytes)).await;
        drop(writer);
        assert_eq!(begun.await.unwrap(), bytes > 0);
    }
}

#[tokio::test]
async fn a_reader_that_leaves_stops_the_writer_only_if_it_was_the_last() {
    let (spool, _home) = spool_of(16, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    let key = key(1, &shown);
    let (writer, one) = open(&spool, key.clone(), &shown).await.unwrap();
    let two = spool.join(&key, payer(2)).unwrap();
    drop(one);
    let abandoned = futures_util::future::poll_immediate(writer.abandoned()).await;
    assert!(abandoned.is_none());
    drop(two);
    writer.abandoned().await;
    assert!(spool.join(&key, payer(1)).is_none(), "nothing will come of it");
}

#[tokio::test]
async fn a_pack_that_finds_no_more_room_becomes_a_ring_that_every_reader_gets_whole() {
    let (spool, _home) = spool_of(1, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    let key = key(1, &shown);
    let (writer, one) = open(&spool, key.clone(), &shown).await.unwrap();
    let two = spool.join(&key, payer(2)).unwrap();
    let bytes = content(3 * STEP + 12_345);
    let readers = [tokio::spawn(read_all(one)), tokio::spawn(read_all(two))];
    fill(&writer, &bytes).await;
    assert!(writer.is_ring());
    assert!(spool.join(&key, payer(3)).is_none(), "its start is gone");
    writer.finish(Ok(()));
    for reader in readers {
        assert!(reader.await.unwrap().unwrap() == bytes);
    }
    assert_eq!(spool.0.used_bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_ring_waits_for_its_slowest_reader_and_says_so() {
    let (spool, _home) = spool_of(1, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    let (writer, mut slow) = open(&spool, key(1, &shown), &shown).await.unwrap();
    fill(&writer, &content(STEP)).await;
    let meter = RateMeter::default();
    let piece = Bytes::from(content(100_000));
    let mut writing = std::pin::pin!(writer.write(piece.clone(), &meter));
    assert!(futures_util::future::poll_immediate(writing.as_mut()).await.is_none());
    let waiting = async {
        tokio::select! {
            _ = writing.as_mut() => unreachable!("there is no room"),
            () = async { while meter.bytes_per_sec().is_none() { tokio::task::yield_now().await } } => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
    for _ in 0..2 {
        slow.next().await.unwrap().unwrap();
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn a_ring_ends_readers_that_hold_up_others_for_ten_seconds() {
    let (spool, _home) = spool_of(1, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    let key = key(1, &shown);
    let (writer, one) = open(&spool, key.clone(), &shown).await.unwrap();
    let mut slow = spool.join(&key, payer(2)).unwrap();
    let bytes = content(3 * STEP);
    let fast = tokio::spawn(read_all(one));
    let started = Instant::now();
    tokio::time::timeout(Duration::from_secs(60), fill(&writer, &bytes)).await.unwrap();
    assert!(started.elapsed() >= RING_WAIT_MAX);
    writer.finish(Ok(()));
    assert!(fast.await.unwrap().unwrap() == bytes);
    assert_eq!(slow.next().await, Err(SpoolError::TooSlow));
}

#[tokio::test]
async fn an_answer_that_another_address_joins_is_not_ended_for_its_first_reader() {
    let (spool, _home) = spool_of(16, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    let key = key(1, &shown);
    let (writer, _first) = open(&spool, key.clone(), &shown).await.unwrap();
    let mut sharing = std::pin::pin!(writer.shared());
    assert!(futures_util::future::poll_immediate(sharing.as_mut()).await.is_none());
    let _same = spool.join(&key, payer(1)).unwrap();
    assert!(futures_util::future::poll_immediate(sharing.as_mut()).await.is_none());
    let _other = spool.join(&key, payer(2)).unwrap();
    tokio::time::timeout(Duration::from_secs(20), sharing).await.expect("without any piece");
}

#[tokio::test]
async fn unused_packs_make_room_and_go_after_a_minute_but_never_under_a_reader() {
    let (spool, _home) = spool_of(2, DiskReserve::unlimited());
    let shown = Arc::<Shown>::default();
    for number in [1, 2] {
        let (writer, reader) = open(&spool, key(number, &shown), &shown).await.unwrap();
        fill(&writer, &content(STEP)).await;
        writer.finish(Ok(()));
        drop(reader);
    }
    let kept = spool.join(&key(1, &shown), payer(1)).unwrap();
    let (_writer, _reader) = open(&spool, key(3, &shown), &shown).await.unwrap();
    assert!(spool.join(&key(2, &shown), payer(1)).is_none(), "it made room");
    assert!(open(&spool, key(4, &shown), &shown).await.is_none());
    let later = Instant::now() + UNUSED_MAX;
    spool.sweep(later);
    assert_eq!(read_all(kept).await.unwrap(), content(STEP));
    spool.sweep(later + UNUSED_MAX);
    assert!(spool.join(&key(1, &shown), payer(1)).is_none());
}

#[tokio::test]
async fn the_reserve_of_the_disk_and_room_for_pushes_are_left_alone() {
    const MIB: u64 = 1 << 20;
    let shown = Arc::<Shown>::default();
    let nearly_full = |_: &Path| Some(1_200 * MIB);
    for (reserve, has_room) in [(1_198, false), (180, false), (170, true)] {
        let disk = DiskReserve::measured_by(nearly_full, Path::new("/"), reserve * MIB);
        let (spool, _home) = spool_of(16, disk);
        let opened = open(&spool, key(1, &shown), &shown).await;
        assert_eq!(opened.is_some(), has_room, "{reserve} MiB in reserve");
        drop(opened);
        assert_eq!(spool.0.used_bytes.load(Ordering::Relaxed), 0);
    }
}
