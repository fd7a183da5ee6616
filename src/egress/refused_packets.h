#pragma once
// What the kernel's rules turned away, told like any other refusal.

#include "judge.h"
#include "pin_table.h"
#include "reporter.h"

namespace mvm::egress {

class RefusedPackets {
 public:
  struct Parts {
    loop::Loop& loop;
    Judge& judge;
    PinTable& pins;
    Reporter& reporter;
    Counters& counters;
  };
  RefusedPackets(Parts parts, sys::Fd socket);
  // Those that the kernel could not hand over.
  uint64_t lost() const noexcept { return refusals_.lost(); }

 private:
  void read();
  void tell(const net::Refusal& refusal);
  void tell_lost(uint64_t count);

  Parts parts_;
  net::Refusals refusals_;
  loop::Watch watch_;
};

}
