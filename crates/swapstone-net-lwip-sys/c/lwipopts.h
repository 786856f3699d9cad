// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The options of lwIP and their reasons. Sizes of windows and buffers are variables, which lw_start() sets
 * from swapstone_net::Limits. lwIP uses these names in expressions only, except in the checks of init.c,
 * which is compiled with constants.
 */
#ifndef LW_LWIPOPTS_H
#define LW_LWIPOPTS_H

#include <stddef.h>
#include <stdint.h>

/* ---- Tuning: build.rs defines these from the variables LWIP_*; lw_option() reports them ---- */
#ifndef LW_CHECKSUM_ON_COPY
#define LW_CHECKSUM_ON_COPY 0
#endif
#ifndef LW_OVERSIZE
#define LW_OVERSIZE 1460
#endif
#ifndef LW_OOSEQ
#define LW_OOSEQ 1
#endif
#ifndef LW_POOLS
#define LW_POOLS 0
#endif

/* ---- Execution ---- */
#define NO_SYS 1 /* no threads: all work is done in the caller's poll */
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0 /* the raw API only; swapstone-net has the sockets */
#define LWIP_NETCONN 0
#define LWIP_NETIF_API 0
#define LWIP_TIMERS 0 /* lw_timer() runs the timers with the caller's time: no list of timeouts, no clock */
#define LWIP_SINGLE_NETIF 1 /* one device: routing needs no search */
#define LWIP_HOOK_FILENAME "hooks.h"

/* ---- Memory ---- */
/* All memory of lwIP comes from the allocator in src/heap.rs, with size classes and a limit set at run time
   (Limits::packet_memory). The sizes of lwIP's own pools are fixed at compile time: LW_POOLS is the number of
   TCP connections with them, and packets remain in that allocator. */
#if LW_POOLS
#define MEMP_MEM_MALLOC 0
#define MEMP_NUM_TCP_PCB LW_POOLS
#define MEMP_NUM_TCP_PCB_LISTEN 16
#define MEMP_NUM_UDP_PCB 64
#define MEMP_NUM_TCP_SEG (1024 + 4 * LW_POOLS)
#define MEMP_NUM_PBUF MEMP_NUM_TCP_SEG
#define MEMP_NUM_REASSDATA 16
#define MEMP_NUM_FRAG_PBUF 64
#define MEMP_NUM_ARP_QUEUE 128
#else
#define MEMP_MEM_MALLOC 1
#endif
#define MEM_CUSTOM_ALLOCATOR 1
#define MEM_CUSTOM_MALLOC lw_rust_malloc
#define MEM_CUSTOM_FREE lw_rust_free
#define MEM_CUSTOM_CALLOC lw_rust_calloc
void *lw_rust_malloc(size_t size);
void *lw_rust_calloc(size_t count, size_t size);
void lw_rust_free(void *memory);
#define MEM_ALIGNMENT 8
#define LWIP_SUPPORT_CUSTOM_PBUF 1 /* received frames stay in the device's buffers */
#define LWIP_PBUF_REF_T uint16_t   /* 8 bits would overflow with many references to a frame */
#define PBUF_POOL_BUFSIZE 1600     /* unused: frames are never copied into lwIP's own pool */

/* ---- Protocols ---- */
#define LWIP_IPV4 1
#define LWIP_IPV6 1
#define LWIP_ARP 1
#define LWIP_ETHERNET 1
#define LWIP_ICMP 1 /* echo */
#define LWIP_BROADCAST_PING 0
#define LWIP_MULTICAST_PING 0
#define LWIP_ICMP6 1
#define LWIP_RAW 0
#define LWIP_UDP 1
#define LWIP_TCP 1
#define LWIP_DNS 0 /* swapstone-net has a resolver of its own */
#define LWIP_DHCP 0
#define LWIP_IGMP 0
#define LWIP_IPV6_MLD 0 /* only solicited-node groups are joined, which need no report on a single link */
#define IP_FORWARD 0
#define IP_REASSEMBLY 1
#define IP_FRAG 1
#define IP_REASS_MAX_PBUFS 64 /* limits the memory of incomplete packets */
#define LWIP_IPV6_REASS 1
#define LWIP_IPV6_FRAG 1
#define IPV6_FRAG_COPYHEADER                                                                                 \
    1 /* with 64-bit pointers the reassembly state is larger than the header that it would overwrite */
#define LWIP_IPV6_AUTOCONFIG 1
#define LWIP_IPV6_DUP_DETECT_ATTEMPTS 1
#define LWIP_IPV6_SEND_ROUTER_SOLICIT 1
#define LWIP_IPV6_NUM_ADDRESSES 8
#define LWIP_ND6_NUM_NEIGHBORS 64
#define LWIP_ND6_NUM_DESTINATIONS 64
#define LWIP_ND6_QUEUEING 1
#define MEMP_NUM_ND6_QUEUE 64
#define LWIP_ND6_TCP_REACHABILITY_HINTS 1
#define LWIP_ND6_ALLOW_RA_UPDATES 1
#define ARP_TABLE_SIZE 64
#define ARP_QUEUEING 1    /* several packets may wait for address resolution */
#define ARP_QUEUE_LEN 128 /* a peer may start many connections before its address is resolved */
#define ETH_PAD_SIZE 0
#define LWIP_CHECKSUM_ON_COPY LW_CHECKSUM_ON_COPY /* 0: payload is mostly sent without a copy */
#define LWIP_CHKSUM_ALGORITHM 3 /* 32-bit loads, unrolled: saves about 10 % of all time */
#define LWIP_CHECKSUM_CTRL_PER_NETIF                                                                         \
    1 /* the checksum of a frame that the device has verified is not verified again */
#define CHECKSUM_CHECK_IP 1
#define CHECKSUM_CHECK_UDP 1
#define CHECKSUM_CHECK_TCP 1
#define CHECKSUM_CHECK_ICMP 1
#define CHECKSUM_CHECK_ICMP6 1

/* ---- TCP ---- */
#ifdef LW_CONSTANTS /* init.c checks them with the preprocessor */
#define TCP_WND 65535
#define TCP_RCV_SCALE 0
#define TCP_SND_BUF 65535
#define TCP_SND_QUEUELEN 1000
#else
extern uint32_t lw_receive_buffer, lw_send_buffer;
extern uint16_t lw_send_queue;
extern uint8_t lw_receive_scale;
#define TCP_WND lw_receive_buffer
#define TCP_RCV_SCALE lw_receive_scale
#define TCP_SND_BUF lw_send_buffer
#define TCP_SND_QUEUELEN lw_send_queue
#endif
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1 /* they need constants */
#define LWIP_WND_SCALE 1
#define TCP_MSS 61440 /* no limit: the MTU determines the announced MSS, the peer's option the other one */
#define TCP_CALCULATE_EFF_SEND_MSS 1
#define TCP_OVERSIZE LW_OVERSIZE /* small writes share a segment of this size; TCP_MSS would be too large */
#define TCP_QUEUE_OOSEQ LW_OOSEQ
#define TCP_OOSEQ_MAX_BYTES(pcb) lw_receive_buffer
#define TCP_OOSEQ_MAX_PBUFS(pcb) 256 /* limits the device's buffers with out-of-order data */
#define LWIP_TCP_SACK_OUT                                                                                    \
    LW_OOSEQ /* send SACK options; lwIP does not use received ones, recovery.c only their presence */
#define LWIP_TCP_MAX_SACK_NUM 4
#define LWIP_TCP_TIMESTAMPS 1 /* only for the fix `timestamps`; see hooks.h */
#define LWIP_TCP_KEEPALIVE 1
#define TCP_LISTEN_BACKLOG                                                                                   \
    0 /* lwIP's is limited to 255 and ignores established connections; lw_tcp_input() has its own */
#define TCP_TMR_INTERVAL                                                                                     \
    50 /* delayed ACKs after at most 50 ms, timeouts in steps of 100 ms, at least 300 ms. With lwIP's 250 a  \
          lost last segment takes 1.5 s. */
#define LWIP_TCP_RTO_TIME 1000 /* the initial RTO of RFC 6298 */
#define TCP_SYNMAXRTX 12       /* one SYN a second without backoff; connect times out after 13 s */
#define TCP_MAXRTX 12
#define TCP_MSL 30000UL             /* TIME_WAIT lasts 60 s */
#define LWIP_TCP_PCB_NUM_EXT_ARGS 6 /* see the enum in index.h */

/* ---- Counters ---- */
#define LWIP_STATS 1
#define LWIP_STATS_LARGE 1
#define MEM_STATS 0
#define MEMP_STATS 0
#define SYS_STATS 0
#define MIB2_STATS 1 /* counts retransmissions */
#define LWIP_STATS_DISPLAY 0

#endif
