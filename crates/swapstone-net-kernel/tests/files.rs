// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limit of open files. It is the only test of its process, because it changes the limit.

use std::fs::File;

use rustix::process::{Resource as Of, Rlimit, getrlimit, setrlimit};
use swapstone_net::error::{AcceptError, BindError, ConnectError, Limit, Resource, UdpSendError};
use swapstone_net::{Limits, Net};
use swapstone_net_kernel::{Buffers, Kernel};

#[test]
fn without_descriptors_each_call_names_the_limit_and_works_later() {
    let (kernel, platform) = Kernel::new(Limits::default(), Buffers::Automatic).unwrap();
    let net = Net::new(kernel, platform);
    let server = net.tcp().unwrap();
    server.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    server.listen(4).unwrap();
    let address = server.local_addr().unwrap();
    let client = net.tcp().unwrap();
    client.connect(address).unwrap();
    let before = getrlimit(Of::Nofile);
    let current = Some(64);
    let few = Rlimit { current, ..before };
    setrlimit(Of::Nofile, few).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    let limit = |of, most| Limit { of, most };
    let tcp = net.tcp().unwrap();
    let sockets = limit(Resource::TcpSockets, 3);
    assert_eq!(tcp.connect(address), Err(ConnectError::Limit(sockets)));
    let any = "127.0.0.1:0".parse().unwrap();
    assert_eq!(tcp.bind(any), Err(BindError::Limit(sockets)));
    let accepted = server.accept().map(|_| ());
    assert_eq!(accepted, Err(AcceptError::Limit(sockets)));
    let udp = net.udp().unwrap();
    let datagrams = limit(Resource::UdpSockets, 1);
    assert_eq!(udp.bind(any), Err(BindError::Limit(datagrams)));
    assert_eq!(udp.connect(address), Err(BindError::Limit(datagrams)));
    let sent = udp.send_to(b"x", address);
    assert_eq!(sent, Err(UdpSendError::Limit(datagrams)));
    // The failed connect has sent no SYN.
    drop(files);
    assert_eq!(server.accept().unwrap().1, client.local_addr().unwrap());
    assert_eq!(tcp.connect(address), Ok(()));
    assert_eq!(udp.bind(any), Ok(()));
    setrlimit(Of::Nofile, before).unwrap();
}
