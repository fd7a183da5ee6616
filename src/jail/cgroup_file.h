#pragma once
// The two ways to change the cgroup file system.

#include <string>

namespace mvm::jail {

void put_text(const std::string& path, const std::string& text);  // into a file that is there
void make_group(const std::string& path);                         // one that is there is fine

}
