#pragma once
// Pieces of heads on their way onto the wire. Each throws Error{Invalid} for what could not be read
// back as itself.

#include <string>
#include <string_view>

#include "mvm/http/message.h"

namespace mvm::http {

std::string_view trimmed(std::string_view text) noexcept;  // spaces and tabs
void append_request_line(std::string& out, const RequestHead& head);
void append_status_line(std::string& out, const ResponseHead& head);
void append_field(std::string& out, const Header& header);
void append_framing(std::string& out, const Framing& framing);  // its field, if it has one

}
