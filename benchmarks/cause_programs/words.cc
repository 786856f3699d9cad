// SPDX-License-Identifier: MIT OR Apache-2.0
// Planted causes in C++: `words NAME 0|1`. Compile with -O2.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

volatile std::uint64_t sink;

std::uint32_t next_random(std::uint32_t &state) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

__attribute__((noinline)) bool parsed(const char *text, long &value) {
    char *end;
    value = std::strtol(text, &end, 10);
    return *end == 0;
}

__attribute__((noinline)) long parse_or_throw(const char *text) {
    long value;
    if (!parsed(text, value))
        throw std::invalid_argument("no number");
    return value;
}

void exceptions(bool planted) {
    for (int i = 0; i < 15000000; i++) {
        const char *text = i % 16 ? "271828182845904523" : "314159265358979323x";
        long value = 0;
        if (planted)
            try {
                value = parse_or_throw(text);
            } catch (const std::invalid_argument &) {
                value = -1;
            }
        else if (!parsed(text, value))
            value = -1;
        sink = sink + static_cast<std::uint64_t>(value);
    }
}

void input(bool planted) {
    char name[] = "causes-XXXXXX";
    std::FILE *file = fdopen(mkstemp(name), "w");
    for (int i = 0; i < 2000000; i++)
        std::fprintf(file, "%d\n", i * 37);
    std::fclose(file);
    if (!std::freopen(name, "r", stdin))
        std::exit(1);
    unlink(name);
    std::ios::sync_with_stdio(planted);
    for (int value; std::cin >> value;)
        sink = sink + static_cast<std::uint64_t>(value);
}

template <class Container> __attribute__((noinline)) void add_words(Container &into, int count) {
    std::uint32_t state = 1;
    for (int i = 0; i < count; i++)
        into.insert(into.end(), {next_random(state), i});
}

void tree(bool planted) {
    enum { COUNT = 400000 };
    if (planted) {
        std::map<std::uint32_t, int> all;
        add_words(all, COUNT);
        for (const auto &each : all)
            sink = sink + each.first;
    } else {
        std::vector<std::pair<std::uint32_t, int>> all;
        add_words(all, COUNT);
        std::sort(all.begin(), all.end());
        for (int round = 0; round < 100; round++)
            for (const auto &each : all)
                sink = sink + each.first;
    }
}

bool is_setting(const std::string &line) {
    std::size_t at = 0;
    while (at < line.size() && (std::isalnum(static_cast<unsigned char>(line[at])) || line[at] == '_'))
        at++;
    return at > 0 && at < line.size() && line[at] == '=';
}

void expressions(bool planted) {
    const std::regex setting("^[A-Za-z0-9_]+=.*$");
    std::uint32_t state = 3;
    for (int i = 0; i < 150000; i++) {
        std::string line;
        for (int at = 0; at < 40; at++)
            line += static_cast<char>('a' + next_random(state) % 26);
        line[20] = '=';
        for (int n = 0; n < 30; n++)
            sink = sink + (line.find(std::string(n, 'z') + line) == 0);
        sink = sink + (planted ? std::regex_match(line, setting) : is_setting(line));
    }
}

} // namespace

int main(int count, char **arguments) {
    const std::map<std::string, void (*)(bool)> causes{
        {"exceptions", exceptions}, {"input", input}, {"tree", tree}, {"expressions", expressions}};
    const auto found = count == 3 ? causes.find(arguments[1]) : causes.end();
    if (found == causes.end())
        return 2;
    found->second(arguments[2][0] == '1');
    return 0;
}
