#include "netlink.h"

#include <string>

#include <netlink/errno.h>
#include <netlink/netlink.h>

#include "mvm/base/error.h"

namespace mvm::net {

int nl_check(int result, std::string_view doing) {
  if (result >= 0) return result;
  // A missing module or right shows up here first; make_guest_network says what to do about it.
  const Kind kind = result == -NLE_PERM || result == -NLE_OPNOTSUPP || result == -NLE_OBJ_NOTFOUND
                        ? Kind::Unsupported
                        : Kind::Internal;
  throw Error(kind, std::string(doing) + ": " + nl_geterror(result));
}

NlSocket open_netlink(int protocol) {
  NlSocket socket(nl_socket_alloc());
  if (!socket) throw std::bad_alloc();
  nl_check(nl_connect(socket.get(), protocol), "opening a netlink socket");
  return socket;
}

NlAddress nl_address(const IpAddress& address, unsigned length) {
  NlAddress out(nl_addr_build(address.is_v4() ? AF_INET : AF_INET6, address.bytes().data(),
                              address.bytes().size()));
  if (!out) throw std::bad_alloc();
  nl_addr_set_prefixlen(out.get(), static_cast<int>(length));
  return out;
}

}
