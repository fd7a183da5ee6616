#pragma once
// renameat2(2), which only some C libraries know.

#include <string>
#include <string_view>

namespace mvm::sys {

// False when `to` is there already.
bool rename_to_new(const std::string& from, const std::string& to, std::string_view doing);
// Each gets the other's name, at once.
void exchange_names(const std::string& from, const std::string& to, std::string_view doing);

}
