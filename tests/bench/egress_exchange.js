// Exchanges as with a model, of 1 KiB of JSON each way.
//   egress_exchange.js serve ADDRESS CERTIFICATE KEY      says what it was asked back, and what that used
//   egress_exchange.js take ADDRESS AUTHORITY KEY COUNT HOST...     in turns with each host, on a connection of its own;
//     prints the median of each, in microseconds. KEY is the client's credential.
const fs = require('fs'), https = require('https')

function serve(address, certificate, key) {
  https.createServer({cert: fs.readFileSync(certificate), key: fs.readFileSync(key), keepAliveTimeout: 0}, (request, answer) => {
    const parts = []
    request.on('data', part => parts.push(part)).on('end', () => {
      const said = Buffer.concat(parts)
      const text = `{"model":"m-1","usage":{"prompt_tokens":210,"completion_tokens":12,"total_tokens":222},"said":${said}}`
      answer.writeHead(200, {'content-type': 'application/json', 'content-length': Buffer.byteLength(text), 'x-key': request.headers.authorization})
      answer.end(text)
    })
  }).listen(443, address)
}

const document = JSON.stringify({
  model: 'm-1', max_tokens: 1024,
  messages: [{role: 'system', content: 'You are a helpful assistant that answers questions about orders.'},
    {role: 'user', content: 'Please write to jane.doe@example.com, or call +1 415-555-2671, about order 12345678.'},
    {role: 'assistant', content: 'Which card was it paid with?'},
    {role: 'user', content: '4111 1111 1111 1111, and the second half of it by transfer from DE89370400440532013000.'}],
  metadata: {pad: 'lorem ipsum '.repeat(48)},
}).padEnd(1024)

async function take(address, authority, key, count, hosts) {
  const agent = new https.Agent({keepAlive: true, maxSockets: 1, ca: fs.readFileSync(authority)})
  const headers = {'content-type': 'application/json', 'content-length': document.length, 'authorization': 'Bearer ' + key}
  const ask = host => new Promise((done, fail) => {
    const begin = process.hrtime.bigint()
    const options = {agent, host: address, servername: host, method: 'POST', path: '/v1/chat/completions', headers: {...headers, host}}
    https.request(options, answer => {
      let text = ''
      answer.on('data', part => { text += part }).on('end', () => {
        // Whatever became of it on its way, here it is as it was.
        if (answer.statusCode != 200 || !text.includes(document) || answer.headers['x-key'] != 'Bearer ' + key) fail(Error(answer.statusCode + text))
        done(Number(process.hrtime.bigint() - begin) / 1e3)
      })
    }).on('error', fail).end(document)
  })
  const took = hosts.map(() => [])
  for (let i = -200; i < +count; ++i)
    for (const [index, host] of hosts.entries()) {
      const one = await ask(host)
      if (i >= 0) took[index].push(one)
    }
  for (const each of took) console.log(each.sort((a, b) => a - b)[each.length >> 1].toFixed(2))
  agent.destroy()
}

const [what, ...words] = process.argv.slice(2)
if (what == 'serve') serve(...words)
else take(...words.slice(0, 4), words.slice(4)).catch(error => { console.error(error); process.exit(1) })
