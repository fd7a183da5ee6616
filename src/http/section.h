#pragma once
// What heads and trailers are read with.

#include <string_view>

#include "mvm/http/parser.h"

namespace mvm::http {

// The next line of a section, without its line end.
std::string_view take_line(std::string_view& lines) noexcept;
Fault parse_headers(std::string_view lines, Headers& headers) noexcept;

}
