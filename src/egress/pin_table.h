#pragma once
// What we told the guest: which name has which address, and for how long that holds. Connections
// are judged by it, never by a second look-up; and the kernel lets connections through to what is
// in it.

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "mvm/base/ip.h"
#include "mvm/dns/message.h"
#include "mvm/dns/name.h"
#include "mvm/loop/loop.h"
#include "mvm/net/pins.h"

#include "judge.h"

namespace mvm::egress {

class PinTable {
 public:
  using Time = loop::Clock::time_point;

  static constexpr size_t kMaxAddresses = 4096;
  static constexpr size_t kMaxNames = 64;  // of one address: hosts of one content network

  explicit PinTable(sys::Fd kernel) : kernel_(std::move(kernel)) {}

  // False: the table is full of addresses that are in use. Throws Error when the kernel refuses.
  [[nodiscard]] bool pin(const dns::Name& name, const IpAddress& address,
                         std::span<const uint16_t> ports, Time now, Time until);
  void open(const std::vector<IpPrefix>& ranges) { kernel_.set_ranges(ranges); }
  // The kernel lets the guest connect to these, whatever DNS says of their addresses.
  void open(const std::vector<Endpoint>& doors);

  // The names that the address was given for, the one that was asked for last first.
  std::vector<dns::Name> names_of(const IpAddress& address, Time now) const;

  // While a flow goes to an address, it stays. False: it is not in the table, and not to be
  // released.
  [[nodiscard]] bool hold(const IpAddress& address);
  void release(const IpAddress& address);

  // The rules have changed: what the kernel lets through to each address follows.
  void repin(const std::function<std::vector<uint16_t>(const dns::Name&)>& ports_of);
  void expire(Time now);
  void clear();
  size_t size() const noexcept { return kernel_pins_; }

 private:
  struct PinnedName {
    dns::Name name;
    Time until;
    uint64_t turn;  // when it was asked for
  };
  struct Entry {
    std::vector<PinnedName> names;
    std::vector<uint16_t> ports;  // in the kernel
    Time until;                   // of the name that holds longest
    size_t flows = 0;
  };
  using Entries = std::map<IpAddress, Entry>;
  void pin_ports(const IpAddress& address, Entry& entry, std::span<const uint16_t> ports);
  Entries::iterator forget(Entries::iterator entry);
  bool make_room(Time now);

  net::Pins kernel_;
  std::vector<Endpoint> doors_;
  Entries entries_;
  uint64_t turn_ = 0;
  size_t kernel_pins_ = 0;
};

// An address that DNS gave for a name that rules admit, for as long as a program may keep it.
[[nodiscard]] bool pin_answer(PinTable& pins, const Judge& judge, const dns::Name& name,
                              const dns::Record& record, PinTable::Time now);

}
