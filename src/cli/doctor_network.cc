#include "doctor_network.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/jail/jail.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::cli {
namespace {

constexpr size_t kMaxModules = size_t{16} << 20;
constexpr const char* kTun = "/dev/net/tun";
constexpr const char* kLoadModules =
    "modprobe -a nf_tables nft_tproxy nft_socket nft_reject_inet nft_log nfnetlink_log, as root; "
    "or "
    "a kernel that has them";

// A namespace alone is not enough: where AppArmor restricts them, its owner has no rights in it.
std::optional<std::string> user_namespace_failure() {
  try {
    sys::SpawnOptions options;
    options.namespaces = CLONE_NEWUSER | CLONE_NEWNET;
    return sys::try_in_child(options, [] {
      const sys::Fd socket(
          sys::check(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "making a socket"));
      ifreq request{};
      std::string("lo").copy(request.ifr_name, IFNAMSIZ);
      request.ifr_flags = IFF_UP;
      sys::check(::ioctl(socket.get(), SIOCSIFFLAGS, &request), "setting up a link in one");
    });
  } catch (const Error& error) {
    return error.message();
  }
}

Obstacle tun_obstacle(int error) {
  const std::string why = " (" + sys::errno_text(error) + ")";
  if (error == ENOENT || error == ENOTDIR)
    return {std::string("there is no ") + kTun,
            "modprobe tun, as root; in a container: hand it in (--device /dev/net/tun)"};
  if (error == ENODEV || error == ENXIO)
    return {std::string("the kernel has no driver behind ") + kTun + why,
            "modprobe tun, as root, or a kernel with CONFIG_TUN"};
  return {std::string(kTun) + " may not be opened" + why,
          "chmod 666 /dev/net/tun, as root, as distributions have it; in a container: hand it in "
          "(--device /dev/net/tun)"};
}

std::string text_of(const std::string& path) {
  try {
    return sys::read_text_file(path, kMaxModules);
  } catch (const Error&) {
    return "";
  }
}

// "kernel/net/netfilter/nft_log.ko.xz" in a list of paths, "nft_log 16384 1" in one of names.
bool lists(const std::string& paths, const std::string& name) {
  return paths.find("/" + name + ".ko") != paths.npos;
}

}

std::string missing_modules(const std::string& release, const std::string& root) {
  const std::string folder = root + "/lib/modules/" + release;
  const std::string builtin = text_of(folder + "/modules.builtin");
  const std::string loadable = text_of(folder + "/modules.dep");
  if (builtin.empty() && loadable.empty()) return "";
  const std::string loaded = "\n" + text_of(root + "/proc/modules");
  constexpr std::array kModules{"nf_tables",       "nft_tproxy", "nft_socket",
                                "nft_reject_inet", "nft_log",    "nfnetlink_log"};
  std::string missing;
  for (const std::string name : kModules) {
    if (lists(builtin, name) || lists(loadable, name) ||
        loaded.find("\n" + name + " ") != loaded.npos)
      continue;
    missing += (missing.empty() ? "" : ", ") + name;
  }
  return missing;
}

Obstacle network_obstacle(const std::string& failure, const std::string& root) {
  if (const auto refused = user_namespace_failure())
    return {"user namespaces are restricted (" + *refused + ")",
            jail::user_namespace_way_out(root)};
  try {
    sys::open_file(kTun, O_RDWR);
  } catch (const SystemError& error) {
    return tun_obstacle(error.errno_value());
  }
  utsname system{};
  ::uname(&system);
  if (const std::string missing = missing_modules(system.release, root); !missing.empty())
    return {"the kernel has no " + missing, kLoadModules};
  return {failure, kLoadModules};
}

}
