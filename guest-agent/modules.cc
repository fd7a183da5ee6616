#include "modules.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::guest {

static constexpr const char* kModuleList = "/modules.list";

std::vector<std::string> parse_module_list(std::string_view text) {
  std::vector<std::string> paths;
  for (const auto line : split(text, '\n'))
    if (!line.empty()) paths.emplace_back(line);
  return paths;
}

void load_modules() {
  if (!sys::exists(kModuleList)) return;
  for (const auto& path : parse_module_list(sys::read_text_file(kModuleList, kMaxModuleList))) {
    const sys::Fd fd = sys::open_file(path, O_RDONLY);
    // ENODEV: a driver whose hardware is not here, such as the checksum instructions of another
    // CPU. Whatever is needed and missing is named when it is used.
    if (::syscall(SYS_finit_module, fd.get(), "", 0) != 0 && errno != EEXIST && errno != ENODEV)
      throw SystemError(errno, "loading " + path);
  }
}

}
