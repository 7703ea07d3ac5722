// Memory that only starting needed.
#pragma once

namespace banyan {

/// Drops read-only pages of the program and its libraries from this process's memory; they stay in the
/// system's page cache, from which those that are used return. Otherwise what only starting needs
/// (registrations, descriptors of messages, symbols, parsers) counts as the process's memory until it ends.
/// Libraries of which something has been changed in memory, such as by a debugger's breakpoints, are left
/// alone.
void drop_start_pages();

}  // namespace banyan
