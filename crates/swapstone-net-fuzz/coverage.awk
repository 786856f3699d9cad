# Sums up libFuzzer's -print_coverage=1: functions that were entered and edges that were passed, by whose they are.
/^(UN)?COVERED_FUNC: / {
    split($5, of, "/")
    path = $0
    whose = ""
    if (path ~ /lwip-2\.2\.1\/src/) whose = "lwIP's C"
    else if (path ~ /swapstone-net-lwip-sys\/c\//) whose = "the glue's C"
    else if (path ~ /swapstone-net-lwip/) whose = "swapstone-net-lwip and -sys, Rust"
    else if (path ~ /swapstone-net-smoltcp/) whose = "swapstone-net-smoltcp"
    else if (path ~ /\/smoltcp-/) whose = "smoltcp itself"
    if (whose == "") next
    functions[whose]++
    entered[whose] += ($1 == "COVERED_FUNC:")
    passed[whose] += of[1]
    edges[whose] += of[2]
}
END {
    for (whose in functions)
        printf "%-30s %5d of %5d functions, %6d of %6d edges (%.1f %%)\n", whose, entered[whose], functions[whose], \
            passed[whose], edges[whose], 100 * passed[whose] / edges[whose]
}
