# SPDX-License-Identifier: MIT OR Apache-2.0
# A planted cause in Perl: with the argument 1 the pattern tries each way to split a line before it fails.
use strict;
use warnings;

my $pattern = $ARGV[0] ? qr/^(?:[a-z]+ ?)+[0-9]$/ : qr/^[a-z ]+[0-9]$/;
my ($found, %counts) = (0);
for my $number (1 .. 120000) {
    my $line = join ' ', map { chr(97 + ($number * $_) % 26) x 3 } 1 .. 4;
    $counts{$_}++ for split / /, $line;
    $found++ if "$line-" =~ $pattern;
}
print "$found\n" if $found;
