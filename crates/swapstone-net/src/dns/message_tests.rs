// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use alloc::vec;

const NAME: &str = "www.Example.org";

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A response to the query for `NAME`, with these record counts and these records.
fn response(flags: u16, counts: [u16; 3], record_type: RecordType, rest: &[u8]) -> Vec<u8> {
    let mut bytes = request(7, &name(NAME), record_type);
    bytes[2..4].copy_from_slice(&(0x8180 | flags).to_be_bytes());
    for (place, count) in bytes[6..12].chunks_exact_mut(2).zip(counts) {
        place.copy_from_slice(&count.to_be_bytes());
    }
    bytes.extend(rest);
    bytes
}

fn record(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = owner.to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(ttl.to_be_bytes());
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A compression pointer to the queried name.
const SAME: [u8; 2] = [0xc0, 12];

fn read(bytes: &[u8], record_type: RecordType) -> Result<Response, Bad> {
    super::response(bytes, 7, &name(NAME), record_type)
}

fn soa(ttl: u32, minimum: u32) -> Vec<u8> {
    let mut data = vec![0xc0, 16, 0];
    for number in [1, 2, 3, 4, minimum] {
        data.extend(number.to_be_bytes());
    }
    record(&[0xc0, 16], 6, ttl, &data)
}

#[test]
fn a_query_has_the_format_of_rfc_1035() {
    let bytes = request(0x1234, &name("a.bc."), RecordType::Aaaa);
    let expected = [
        0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 2, b'b', b'c', 0, 0, 28, 0, 1,
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn names_and_labels_have_a_maximum_length() {
    assert_eq!(name("A.b"), name("a.B."));
    for bad in ["", ".", "a..b", ".a"] {
        assert_eq!(Name::new(bad), None, "{bad}");
    }
    let label = "x".repeat(63);
    assert!(Name::new(&label).is_some());
    assert!(Name::new(&"x".repeat(64)).is_none());
    // 253 characters are 255 bytes on the wire.
    let long = [label.as_str(), &label, &label, &"y".repeat(61)].join(".");
    assert_eq!(long.len(), 253);
    assert!(Name::new(&long).is_some());
    let longer = [label.as_str(), &label, &label, &"y".repeat(62)].join(".");
    assert!(Name::new(&longer).is_none());
}

#[test]
fn addresses_are_decoded() {
    let mut rest = record(&SAME, 1, 300, &[192, 0, 2, 1]);
    rest.extend(record(&SAME, 1, 200, &[192, 0, 2, 2]));
    let got = read(&response(0, [2, 0, 0], RecordType::A, &rest), RecordType::A);
    let expected = vec![IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])];
    assert_eq!(got, Ok(Response::Addresses(expected, 200)));
    let rest = record(&SAME, 28, 1, &[0x20; 16]);
    let got = read(
        &response(0, [1, 0, 0], RecordType::Aaaa, &rest),
        RecordType::Aaaa,
    );
    assert_eq!(
        got,
        Ok(Response::Addresses(vec![IpAddr::from([0x20; 16])], 1))
    );
}

/// A response with two CNAME records, compression, an authority record and an additional record.
fn chain() -> Vec<u8> {
    let mut rest = record(&SAME, 5, 100, &[1, b'a', 0xc0, 16]);
    rest.extend(record(&[1, b'b', 0xc0, 16], 1, 500, &[192, 0, 2, 9]));
    rest.extend(record(&[1, b'A', 0xc0, 16], 5, 50, &[1, b'b', 0xc0, 16]));
    rest.extend(record(&[0xc0, 16], 2, 9, &SAME));
    rest.extend(record(&[0], 41, 0, &[]));
    response(0, [3, 1, 1], RecordType::A, &rest)
}

#[test]
fn cname_records_are_followed_in_any_order() {
    let expected = Response::Addresses(vec![IpAddr::from([192, 0, 2, 9])], 50);
    assert_eq!(read(&chain(), RecordType::A), Ok(expected));
}

#[test]
fn a_cname_without_an_address_is_returned() {
    let rest = record(&SAME, 5, 100, &[1, b'z', 0]);
    let got = read(&response(0, [1, 0, 0], RecordType::A, &rest), RecordType::A);
    assert_eq!(got, Ok(Response::Cname(Box::new(name("z")), 100)));
}

#[test]
fn a_cname_loop_is_an_error() {
    let mut rest = record(&SAME, 5, 100, &[1, b'a', 0xc0, 16]);
    rest.extend(record(&[1, b'a', 0xc0, 16], 5, 100, &SAME));
    let got = read(&response(0, [2, 0, 0], RecordType::A, &rest), RecordType::A);
    assert_eq!(got, Ok(Response::CnameLoop));
}

#[test]
fn negative_responses_have_a_ttl() {
    let none = response(3, [0, 1, 0], RecordType::A, &soa(900, 60));
    assert_eq!(read(&none, RecordType::A), Ok(Response::NxDomain(Some(60))));
    let none = response(3, [0, 0, 0], RecordType::A, &[]);
    assert_eq!(read(&none, RecordType::A), Ok(Response::NxDomain(None)));
    let none = response(0, [0, 1, 0], RecordType::A, &soa(30, 60));
    assert_eq!(read(&none, RecordType::A), Ok(Response::NoData(Some(30))));
    let mut rest = record(&SAME, 5, 100, &[1, b'z', 0]);
    rest.extend(soa(30, 60));
    let none = response(0, [1, 1, 0], RecordType::A, &rest);
    assert_eq!(read(&none, RecordType::A), Ok(Response::NoData(Some(30))));
}

#[test]
fn error_responses_are_decoded() {
    let failed = response(2, [0, 0, 0], RecordType::A, &[]);
    assert_eq!(read(&failed, RecordType::A), Ok(Response::ServerError(2)));
    let cut = response(0x200, [0, 0, 0], RecordType::A, &[]);
    assert_eq!(read(&cut, RecordType::A), Ok(Response::Truncated));
}

#[test]
fn responses_to_other_queries_are_rejected() {
    let rest = record(&SAME, 1, 300, &[192, 0, 2, 1]);
    let good = response(0, [1, 0, 0], RecordType::A, &rest);
    assert!(read(&good, RecordType::A).is_ok());
    assert_eq!(
        super::response(&good, 8, &name(NAME), RecordType::A),
        Err(Bad::NotOurs)
    );
    assert_eq!(
        super::response(&good, 7, &name("x"), RecordType::A),
        Err(Bad::NotOurs)
    );
    assert_eq!(read(&good, RecordType::Aaaa), Err(Bad::NotOurs));
    let mut question = good.clone();
    question[2] = 1;
    assert_eq!(read(&question, RecordType::A), Err(Bad::NotOurs));
}

#[test]
fn addresses_of_other_names_are_ignored() {
    let rest = record(&[1, b'x', 0], 1, 300, &[192, 0, 2, 1]);
    let got = read(&response(0, [1, 0, 0], RecordType::A, &rest), RecordType::A);
    assert_eq!(got, Ok(Response::NoData(None)));
}

#[test]
fn every_truncated_response_is_an_error() {
    let mut rest = record(&SAME, 28, 1, &[0x20; 16]);
    rest.extend(soa(1, 2));
    let samples = [
        (chain(), RecordType::A),
        (
            response(0, [1, 1, 0], RecordType::Aaaa, &rest),
            RecordType::Aaaa,
        ),
        (
            response(3, [0, 1, 0], RecordType::A, &soa(900, 60)),
            RecordType::A,
        ),
    ];
    for (whole, record_type) in samples {
        assert!(read(&whole, record_type).is_ok());
        for length in 0..whole.len() {
            assert!(read(&whole[..length], record_type).is_err(), "{length}");
        }
    }
}

#[test]
fn compression_pointers_refer_to_earlier_bytes_only() {
    let at = request(7, &name(NAME), RecordType::A).len() as u8;
    // To itself, forwards, out of the message, in a circle of two.
    let invalid: [&[u8]; 4] = [
        &[0xc0, at],
        &[0xc0, at + 4],
        &[0xff, 0xff],
        &[1, b'x', 0xc0, at],
    ];
    for owner in invalid {
        let rest = record(owner, 1, 300, &[192, 0, 2, 1]);
        let got = read(&response(0, [1, 0, 0], RecordType::A, &rest), RecordType::A);
        assert_eq!(got, Err(Bad::Malformed), "{owner:?}");
    }
    // Reserved kinds of labels.
    for kind in [0x40, 0x80] {
        let rest = record(&[kind, 0], 1, 300, &[192, 0, 2, 1]);
        let got = read(&response(0, [1, 0, 0], RecordType::A, &rest), RecordType::A);
        assert_eq!(got, Err(Bad::Malformed));
    }
}

#[test]
fn names_that_grow_by_pointers_are_limited() {
    // Each owner is a label of 60 bytes and a pointer to the one before: the fifth is too long.
    let mut rest = Vec::new();
    let mut before = 12_usize;
    let start = request(7, &name(NAME), RecordType::A).len();
    for _ in 0..5 {
        let here = start + rest.len();
        let mut owner = vec![60];
        owner.extend([b'x'; 60]);
        owner.extend((0xc000 | before as u16).to_be_bytes());
        rest.extend(record(&owner, 2, 1, &[]));
        before = here;
    }
    let got = read(&response(0, [5, 0, 0], RecordType::A, &rest), RecordType::A);
    assert_eq!(got, Err(Bad::Malformed));
}

#[test]
fn wrong_lengths_are_malformed() {
    for data in [&[1, 2, 3][..], &[1, 2, 3, 4, 5], &[0; 16]] {
        let rest = record(&SAME, 1, 300, data);
        let got = read(&response(0, [1, 0, 0], RecordType::A, &rest), RecordType::A);
        assert_eq!(got, Err(Bad::Malformed));
    }
    let rest = record(&SAME, 5, 300, &[1, b'a', 0, 0]);
    let got = read(&response(0, [1, 0, 0], RecordType::A, &rest), RecordType::A);
    assert_eq!(got, Err(Bad::Malformed));
}

#[test]
fn random_bytes_never_panic() {
    let mut state = 1_u64;
    let whole = chain();
    for _ in 0..200_000 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 25) as u8;
        }
        // The id and the question stay valid, so that the records are decoded.
        bytes[..6].copy_from_slice(&whole[..6]);
        let _ = read(&bytes, RecordType::A);
    }
}
