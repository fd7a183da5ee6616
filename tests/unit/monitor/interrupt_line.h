#pragma once
// An interrupt line of a device in a test, as a descriptor that is readable after an edge.

#include "mvm/sys/fd.h"
#include "mvm/sys/io.h"

#include "../../../src/monitor/device_slot.h"

namespace mvm::test {

class InterruptLine {
 public:
  int fd() const { return edge_.get(); }
  monitor::DeviceSlot::Interrupt raise() const {
    return [fd = fd()](uint32_t) { sys::signal_event(fd); };
  }

 private:
  sys::Fd edge_ = sys::event_fd();
};

}
