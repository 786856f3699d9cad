/*
 * lwIP's options, each with its reason. What stands for a size of the run (windows, buffers) is a variable
 * that lw_start() sets from swapstone_net::Limits: lwIP uses these names in expressions only, except in the checks
 * of init.c, which gets constants.
 */
#ifndef LW_LWIPOPTS_H
#define LW_LWIPOPTS_H

#include <stddef.h>
#include <stdint.h>

/* ---- How it runs ---- */
#define NO_SYS 1 /* no threads: everything happens in the caller's poll */
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_SOCKET 0 /* the raw API only; the sockets are swapstone-net's */
#define LWIP_NETCONN 0
#define LWIP_NETIF_API 0
#define LWIP_TIMERS                                                                                          \
    0 /* lw_timer() is called with the time that the user passes in: no list of time-outs, no clock */
#define LWIP_SINGLE_NETIF 1 /* one device for each stack: routes need no search */
#define LWIP_HOOK_FILENAME "hooks.h"

/* ---- Memory ---- */
/* All of lwIP's memory comes from the pool in pool.rs, with size classes and a limit set at run time
   (Limits::packet_memory). Pools of lwIP's own would have their sizes fixed when it is compiled. */
#define MEMP_MEM_MALLOC 1
#define MEM_CUSTOM_ALLOCATOR 1
#define MEM_CUSTOM_MALLOC lw_rust_malloc
#define MEM_CUSTOM_FREE lw_rust_free
#define MEM_CUSTOM_CALLOC lw_rust_calloc
void *lw_rust_malloc(size_t size);
void *lw_rust_calloc(size_t count, size_t size);
void lw_rust_free(void *memory);
#define MEM_ALIGNMENT 8
#define LWIP_SUPPORT_CUSTOM_PBUF 1 /* received frames stay in the device's memory, wrapped */
#define LWIP_PBUF_REF_T uint16_t   /* a frame that many queues refer to must not wrap a count of 8 bits */
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
#define LWIP_IPV6_MLD                                                                                        \
    0 /* we join no groups but the solicited-node ones, which need no report on one link                     \
       */
#define IP_FORWARD 0
#define IP_REASSEMBLY 1
#define IP_FRAG 1
#define IP_REASS_MAX_PBUFS 64 /* bounds what fragments that never complete can hold */
#define LWIP_IPV6_REASS 1
#define LWIP_IPV6_FRAG 1
#define IPV6_FRAG_COPYHEADER                                                                                 \
    1 /* with 64-bit pointers what reassembly keeps is larger than the header that it would overwrite */
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
#define ARP_QUEUEING 1    /* more than one packet may wait for an address to be resolved */
#define ARP_QUEUE_LEN 128 /* a host may begin a hundred connections before we know its address */
#define ETH_PAD_SIZE 0
#define LWIP_CHECKSUM_ON_COPY 0 /* payload is mostly sent from where it is; the device sums it if it can */
#define LWIP_CHKSUM_ALGORITHM 3 /* the one with 32-bit loads, unrolled: worth about a tenth of all time */
#define LWIP_CHECKSUM_CTRL_PER_NETIF                                                                         \
    1 /* a frame that the device has verified is not summed again; all others are */
#define CHECKSUM_CHECK_IP 1
#define CHECKSUM_CHECK_UDP 1
#define CHECKSUM_CHECK_TCP 1
#define CHECKSUM_CHECK_ICMP 1
#define CHECKSUM_CHECK_ICMP6 1

/* ---- TCP ---- */
#ifdef LW_CONSTANTS /* init.c only checks them, with the preprocessor */
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
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1 /* they compare constants */
#define LWIP_WND_SCALE 1
#define TCP_MSS                                                                                              \
    61440 /* no limit of our own: the MTU makes the announced one, the peer's option the other               \
           */
#define TCP_CALCULATE_EFF_SEND_MSS 1
#define TCP_OVERSIZE 1460 /* small writes share one packet; TCP_MSS would be far too much */
#define TCP_QUEUE_OOSEQ 1
#define TCP_OOSEQ_MAX_BYTES(pcb) lw_receive_buffer
#define TCP_OOSEQ_MAX_PBUFS(pcb) 256 /* what is out of order holds the device's buffers: bounded */
#define LWIP_TCP_SACK_OUT                                                                                    \
    1 /* tell the peer what is missing; lwIP makes no use of what the peer tells, index.c little */
#define LWIP_TCP_MAX_SACK_NUM 4
#define LWIP_TCP_TIMESTAMPS                                                                                  \
    0 /* they would cost 12 bytes a segment, and lwIP does not use them to measure                           \
       */
#define LWIP_TCP_KEEPALIVE 1
#define TCP_LISTEN_BACKLOG                                                                                   \
    0 /* lwIP's counts to 255 and does not count what is complete; lw_tcp_input() asks ours */
#define TCP_TMR_INTERVAL                                                                                     \
    50 /* delayed acknowledgements after at most 50 ms, time-outs in steps of 100 ms, at least 300: with     \
          lwIP's 250 a lost last segment costs 1.5 s */
#define LWIP_TCP_RTO_TIME 1000 /* RFC 6298: 1 s before anything was measured */
#define TCP_SYNMAXRTX                                                                                        \
    12 /* one SYN a second, for lwIP does not wait longer each time; a connect is given up after 13 s */
#define TCP_MAXRTX 12
#define TCP_MSL 30000UL             /* TIME_WAIT for a minute */
#define LWIP_TCP_PCB_NUM_EXT_ARGS 6 /* links of the index and where a recovery ends, see index.c */

/* ---- Counting ---- */
#define LWIP_STATS 1
#define LWIP_STATS_LARGE 1
#define MEM_STATS 0
#define MEMP_STATS 0
#define SYS_STATS 0
#define MIB2_STATS 1 /* retransmissions are counted only there */
#define LWIP_STATS_DISPLAY 0

#endif
