// SPDX-License-Identifier: MIT OR Apache-2.0
use super::Code;
use crate::scan::Parsed;
use crate::script::{Action, Body, Script, TcpOption, Value, Version, When};

fn script(text: &str) -> Parsed<Script> {
    super::script(text, Code::Refused)
}

fn fails(text: &str, line: usize, part: &str) {
    let error = script(text).unwrap_err();
    assert_eq!(error.line, line, "{}", error.text);
    assert!(
        error.text.contains(part),
        "{part:?} is not in {:?}",
        error.text
    );
}

#[test]
fn a_handshake_is_parsed() {
    let text = "\
// A comment.
--tolerance_usecs=5000
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 < S 0:0(0) win 32792 <mss 1000,sackOK,TS val 7 ecr 0,nop,wscale 7>
/* A longer
   comment. */
+.1~+.25 > S. 0:0(0) ack 1 win 100 <...>
0.3...0.5 accept(3, ..., ...) = 4
* > P. 1:1001(1000) ack 1
";
    let script = script(text).unwrap();
    assert_eq!(script.tolerance, Some(5000));
    assert_eq!(script.version, Version::V4);
    let lines: Vec<_> = script.events.iter().map(|event| event.line).collect();
    assert_eq!(lines, [3, 4, 7, 8, 9]);
    let times: Vec<_> = script.events.iter().map(|event| event.when).collect();
    assert_eq!(
        times,
        [
            When::Absolute(0),
            When::Relative(0),
            When::RelativeRange(100_000, 250_000),
            When::Absolute(300_000),
            When::Any,
        ]
    );
    assert_eq!(script.events[3].until, Some(500_000));
    let Action::Inject(packet) = &script.events[1].action else {
        panic!("{:?}", script.events[1]);
    };
    let Body::Tcp(syn) = &packet.body else {
        panic!("{packet:?}");
    };
    assert_eq!((syn.flags, syn.window, syn.ack), (2, Some(32792), None));
    assert_eq!(
        syn.options.as_deref().unwrap(),
        [
            TcpOption::Mss(1000),
            TcpOption::SackPermitted,
            TcpOption::Timestamp(7, 0),
            TcpOption::Nop,
            TcpOption::WindowScale(7),
        ]
    );
    let Action::Expect(packet) = &script.events[2].action else {
        panic!("{:?}", script.events[2]);
    };
    let Body::Tcp(answer) = &packet.body else {
        panic!("{packet:?}");
    };
    assert_eq!((answer.flags, answer.ack), (18, Some(1)));
    assert_eq!(answer.options, None);
}

#[test]
fn calls_have_values_of_all_kinds() {
    let text = "0 setsockopt(3, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 fcntl(3, F_GETFL) = 0x802 (flags O_RDWR|O_NONBLOCK)
+0 read(3, ..., 10) = -1 EAGAIN (Resource temporarily unavailable)
+0 poll([{fd=3, events=POLLIN, revents=POLLIN}], 1, 0) = 1
+0 connect(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr(\"1.2.3.4\")}, ...) = 0
";
    let script = script(text).unwrap();
    let calls: Vec<_> = script
        .events
        .iter()
        .map(|event| match &event.action {
            Action::Call(call) => call,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        calls[0].arguments[3],
        Value::Fields(vec![
            ("onoff".into(), Value::Number(1)),
            ("linger".into(), Value::Number(0)),
        ])
    );
    assert!(matches!(&calls[1].arguments[2], Value::Or(parts) if parts.len() == 2));
    assert_eq!(calls[2].result, Value::Number(0x802));
    assert_eq!(calls[3].result, Value::Number(-1));
    assert_eq!(calls[3].errno.as_deref(), Some("EAGAIN"));
    assert!(matches!(&calls[4].arguments[0], Value::List(entries) if entries.len() == 1));
    assert!(matches!(&calls[5].arguments[1], Value::Fields(fields) if fields.len() == 3));
}

#[test]
fn icmp_and_datagrams_are_parsed() {
    let text = "0 < icmp unreachable frag_needed mtu 1000 [1:1461(1460)]
+0 < udp (100)
+0 > [ect0] . 1:1(0) ack 1
";
    let script = script(text).unwrap();
    let Action::Inject(packet) = &script.events[0].action else {
        panic!("{:?}", script.events[0]);
    };
    let Body::Icmp(icmp) = &packet.body else {
        panic!("{packet:?}");
    };
    assert_eq!((icmp.kind, icmp.code, icmp.mtu), (3, 4, Some(1000)));
    assert_eq!(icmp.quoted, Some((1, 1460)));
    let Action::Expect(packet) = &script.events[2].action else {
        panic!("{:?}", script.events[2]);
    };
    assert_eq!(packet.ecn, Some(2));
    let six = super::script(
        "--ip_version=ipv6\n0 < icmp packet_too_big mtu 1280",
        Code::Refused,
    )
    .unwrap();
    assert_eq!(six.version, Version::V6);
}

#[test]
fn shell_and_python_are_refused_with_the_reason() {
    fails(
        "`touch /tmp/x`\n0 socket() = 3",
        1,
        "a shell command is not run",
    );
    fails("0 close(3) = 0\n+0 `ls`", 2, "a shell command is not run");
    fails("0 close(3) = 0\n+0 %{ assert 1 }%", 2, "Python code");
}

#[test]
fn code_that_is_skipped_keeps_its_time_and_is_counted() {
    let text = "`../common/defaults.sh\n../set.py \"a b\"`\n\
        0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
        +.5 `sysctl -q a=1`\n\
        +.25 %{ assert tcpi_unacked == 7, {1: 2} }%\n\
        +0 close(3) = 0\n\
        // `a comment`\n\
        `cleanup`\n";
    let found = super::script(text, Code::Skipped).unwrap();
    assert_eq!(found.skipped, 4);
    let seen: Vec<_> = found
        .events
        .iter()
        .map(|event| {
            (
                event.line,
                event.when,
                matches!(event.action, Action::Code(_) | Action::Assert(_)),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (3, When::Absolute(0), false),
            (4, When::Relative(500_000), true),
            (5, When::Relative(250_000), true),
            (6, When::Relative(0), false),
        ]
    );
    for (text, place, part) in [
        ("0 close(3) = 0\n+0 `ls", (2, 4), "without its end `"),
        ("0 close(3) = 0\n%{ `}` }", (2, 1), "without its end }%"),
        ("0 close(3) = 0\n% x }%", (2, 1), "expected \"%{\""),
        ("`ls`", (1, 5), "no events"),
        ("`ls`\n--mtu=1000\n0 close(3) = 0", (2, 1), "expected"),
        ("--define=A=`x`\n0 close(3) = 0", (1, 12), "not known"),
        ("+0~+1 `ls`", (1, 1), "range of times"),
    ] {
        let error = super::script(text, Code::Skipped).unwrap_err();
        assert_eq!((error.line, error.column), place, "{text}: {}", error.text);
        assert!(error.text.contains(part), "{text}: {}", error.text);
    }
}

#[test]
fn errors_name_the_line() {
    fails("", 1, "no events");
    fails("\n\n0 < Q 0:0(0) win 1", 3, "no TCP flags");
    fails("0 < S 0:0(0)", 1, "needs a window");
    fails(
        "0 < . 1:5(5) ack 1 win 1",
        1,
        "has 4 bytes, and the length is 5",
    );
    fails("0 < S 0:0(0) win 1 <mss 1000", 1, "expected \",\"");
    fails("0 < S 0:0(0) win 1 <size 3>", 1, "expected mss");
    fails("0 < S 0:0(0) win 70000", 1, "at most 65535");
    fails(
        "0 < S 5000000000:5000000000(0) win 1",
        1,
        "at most 4294967295",
    );
    fails("0 < icmp nothing", 1, "no type of ICMP");
    fails("0 < icmp unreachable nothing", 1, "no code");
    fails("1 close(3) = 0\n0 close(4) = 0", 2, "time goes backwards");
    fails("* close(3) = 0", 1, "range of times");
    fails("0~1 < . 1:1(0) win 1", 1, "range of times");
    fails("0.1234567 close(3) = 0", 1, "six decimals");
    fails("--init_scripts=x\n0 close(3) = 0", 1, "is not supported");
    fails("/* open", 1, "without */");
    fails("0 close(3", 1, "the end of the script");
    fails(
        "0 < ipv4 1.1.1.1 > 2.2.2.2: . 1:1(0) win 1",
        1,
        "encapsulation",
    );
    fails("0 < . 1:65457(65456) ack 1 win 1", 1, "at most 65455");
    let deep = format!("0 close({}1) = 0", "[".repeat(100));
    fails(&deep, 1, "nested");
    let blocks = "0 < . 1:1(0) win 1 <sack 1:2 3:4 5:6 7:8 9:10>";
    fails(blocks, 1, "1 to 4 blocks");
    let wide = "0 < S 0:0(0) win 1 <TS val 1 ecr 0,TS val 1 ecr 0,TS val 1 ecr 0,TS val 1 ecr 0,TS val 1 ecr 0>";
    fails(wide, 1, "room for 40");
}

#[test]
fn any_text_is_parsed_or_refused() {
    // Every prefix and every deletion of a byte of a script that has all parts.
    let text = "--tolerance_usecs=1\n0...1 poll([{fd=3, events=POLLIN|POLLOUT}], 1, -1) = 0x1 (x)\n\
                +.1~+.2 > [ce] FSRP.UEW 1:3(2) ack 4 win 5 urg 6 <mss 1,sack 1:2 3:4,TS val 1 ecr 2,eol>\n\
                * < icmp type_3 code_4 mtu 5 [1:2(1)]\n+0 < udp (3) // \u{fc}\n";
    for end in 0..=text.len() {
        if text.is_char_boundary(end) {
            let _ = script(&text[..end]);
            for other in [
                "\"",
                "{",
                "`",
                "(",
                "9999999999999999999999",
                "~",
                "\u{fc}",
                "\0",
            ] {
                let _ = script(&format!("{}{other}{}", &text[..end], &text[end..]));
            }
        }
    }
}

#[test]
fn errors_name_the_column() {
    for (text, place, part) in [
        (
            "0 close(3) = 0\n  +0 \tlisten(3, N) = 0",
            (2, 17),
            "the constant N",
        ),
        (
            "0 /* \u{fc} */ send(3, ..., 1, MSG_OOB) = 1",
            (1, 27),
            "MSG_OOB",
        ),
        ("0 close(3) = -1 EWHAT", (1, 17), "the error EWHAT"),
        ("0 \u{fc}", (1, 3), "expected <, > or a system call"),
        (
            "1 close(3) = 0\n\n   0.5 close(4) = 0",
            (3, 4),
            "time goes backwards",
        ),
        ("+.2~+.1 > . 1:1(0)", (1, 1), "ends before it starts"),
        ("0 > [ect0] . 1:5(5)", (1, 12), "the length is 5"),
        ("0 < S 0:0(0) win 9 <...>", (1, 5), "<...> is for segments"),
        ("0 > . 1:1(0) <mss>", (1, 18), "expected an MSS"),
        ("0 > 8080 > 9 . 1:1(0)", (1, 5), "ports"),
        ("--define=A=`x`\n0 close(3) = 0", (1, 12), "a shell command"),
        ("--speed=3\n0 close(3) = 0", (1, 3), "--speed"),
        ("0 write(4, \"GET, 3) = 3", (1, 12), "without its end"),
    ] {
        let error = script(text).unwrap_err();
        assert_eq!((error.line, error.column), place, "{text}: {}", error.text);
        assert!(error.text.contains(part), "{text}: {}", error.text);
    }
}

#[test]
fn defined_names_and_strings_are_values() {
    let text = "--define=KIND=SOCK_DGRAM\n--define=CC=\"reno\"\n\
        0 socket(..., KIND, IPPROTO_UDP) = 3\n\
        +0 setsockopt(3, SOL_SOCKET, SO_LINGER, CC, 4) = 0\n\
        +0 write(3, \"a \\\"b\\\" \" \"c\"..., 7) = 7\n";
    let script = script(text).unwrap();
    let arguments = |at: usize| match &script.events[at].action {
        Action::Call(call) => call.arguments.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(arguments(0)[1], Value::Name("SOCK_DGRAM".into()));
    assert_eq!(arguments(1)[3], Value::Text("reno".into()));
    assert_eq!(arguments(2)[1], Value::Text("a \\\"b\\\" c".into()));
}
