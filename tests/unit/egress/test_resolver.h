#pragma once
// The resolver that the proxy asks: knows what a test tells it, and remembers what it was asked.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvm/dns/message.h"
#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"

namespace mvm::egress {

class TestResolver {
 public:
  explicit TestResolver(loop::Loop& loop) : loop_(loop) {}
  // On UDP and TCP. The address has to be there.
  void listen(const std::string& address);

  void add(const std::string& host, const std::string& address, uint32_t ttl = 60);
  void add_alias(const std::string& host, const std::string& target, uint32_t ttl = 60);
  void add_record(const std::string& host, dns::RecordType type, Bytes data, uint32_t ttl = 60);
  void clear() { records_.clear(); }

  // What came over UDP and TCP: "udp example.com A".
  std::vector<std::string> asked;
  // Seconds for which it says that a name it does not know may be remembered as none; nothing: no
  // word.
  std::optional<uint32_t> negative_ttl;
  size_t ignore = 0;         // so many queries from now on
  bool truncate = false;     // over UDP
  bool change_case = false;  // answers with other letters than were asked
  bool lie_first = false;    // sends an answer with another id and a false address before each
  dns::Rcode rcode = dns::Rcode::NoError;

 private:
  struct Client {
    sys::Fd socket;
    loop::Watch watch;
  };
  void receive();
  void accept();
  void serve_client(Client& client);
  std::vector<Bytes> answers(ByteView query, bool udp);

  loop::Loop& loop_;
  std::multimap<std::string, dns::Record> records_;
  sys::Fd udp_;
  sys::Fd tcp_;
  loop::Watch udp_watch_;
  loop::Watch tcp_watch_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}
