// What the sandbox's namespace knows of the world, as the kernel lists it: its own link, and
// itself.
#include <algorithm>
#include <sstream>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/net/guest_network.h"
#include "mvm/sys/fd.h"

#include "name_space.h"

namespace mvm::net {
namespace {

TEST(GuestNetworkRoutes, NoneLeadsOut) {
  GuestNetwork network;
  try {
    network = make_guest_network({}, 1500);
  } catch (const Error& error) {
    if (error.kind() != Kind::Unsupported) throw;
    GTEST_SKIP() << error.message();
  }
  const sys::Fd name_space = name_space_of(network.tap);
  if (name_space.get() < 0) GTEST_SKIP() << "this kernel does not say where a TAP is";
  const std::string links = in_namespace(name_space.get(), "ip -o link");
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to look into it";
  ASSERT_NE(links, "") << "ip(8) has not run";
  EXPECT_EQ(std::count(links.begin(), links.end(), '\n'), 2) << links;  // lo and the TAP
  std::istringstream routes(
      in_namespace(name_space.get(), "ip -4 route show table all; ip -6 route show table all"));
  size_t count = 0;
  for (std::string line; std::getline(routes, line); ++count) {
    // To the namespace itself ("local" is also how TPROXY takes connections to anywhere), or to the
    // two addresses of the link.
    const std::string kind = line.substr(0, line.find(' '));
    const bool inside = kind == "local" || kind == "broadcast" || kind == "multicast" ||
                        kind == "anycast" || kind == "unreachable" || kind == "100.127.255.0/30" ||
                        kind == "fd6d:766d::/64" || kind == "fe80::/64";
    EXPECT_TRUE(inside) << line;
    EXPECT_EQ(line.find(" via "), line.npos) << line;
  }
  EXPECT_GE(count, 4U);
}

}
}
