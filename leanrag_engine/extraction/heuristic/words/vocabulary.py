"""English words and cues by which names and terms are told from the rest of a sentence, without a model.

Each list is a closed class, or the frequent part of an open one; what a list does not know is decided by the
statistics of the document (:mod:`leanrag_engine.extraction.heuristic.names.mentions`).
"""

from __future__ import annotations

from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import STOPWORDS


def _set(spaced: str) -> frozenset[str]:
    return frozenset(spaced.split())


DETERMINERS = _set(
    "a an the this that these those its their his her our your my each every any some no another such both all most "
    "many several few one two three four five either neither which what whose"
)
PREPOSITIONS = _set(
    "of in on at by for from with as to into onto over under between among within without through during per via "
    "against about after before like than towards upon across behind beyond until since and or nor but except plus versus"
)
BE = _set(
    "is are was were be been being am isn't aren't wasn't weren't becomes become became remains remain seems seem"
)
VERB_LEFT = _set(
    "to can could may might must shall should will would cannot not don't doesn't didn't won't can't couldn't shouldn't "
    "wouldn't i you we they he she it who which does do did never always also then only directly"
)
"""Before one of these, an ambiguous word is a verb: *to call*, *must return*."""
VERB_RIGHT = _set(
    "a an the this these its their any it them him us me itself themselves all each another whether how what your his her "
    "my our up out"
)
"""After a noun, an ambiguous word before one of these is a verb: *the function returns the …*."""

_VERB_STEMS = _set(
    "accept accomplish achieve acquire act adapt add adopt affect agree aim allow alter announce apply appear argue arise arrive "
    "ask assume attach attempt attend avoid base become begin behave believe belong bring build buy capture carry catch cause "
    "change check choose claim collect combine come compare compute concern conduct confirm confuse connect consider consist constitute "
    "contain continue contribute convert correspond cover create cut deal decide declare decrease define delegate delete deliver demonstrate "
    "denote depend derive describe design destroy detect determine develop differ disable discard discover discuss display distinguish divide "
    "draw drive drop eat emerge employ enable encapsulate enclose encounter end enforce enhance ensure enter equal establish evaluate examine "
    "exceed execute exist expand expect explain explore expose express extend fail fall feel fetch fill find finish fit fix focus follow force "
    "fulfill gain generate get give go grow guarantee handle happen have hear help hide hit hold identify ignore illustrate implement imply "
    "import improve include incorporate increase indicate influence inherit insert inspect instantiate insist install intend interact "
    "interpret introduce invoke involve join keep know lack lead learn leave let lie list listen live load look lose love maintain make "
    "manage mark match mean measure meet mention merge miss modify move need note notice observe obtain occur offer omit open operate "
    "overcome override own participate pass pay perform permit persist pick play possess precede prefer prepare present preserve prevent "
    "print proceed produce prohibit promote propose protect prove provide publish pull push put raise reach read realize receive recognize "
    "recommend reduce refer reflect refuse regard reject relate release rely remain remember remove render repeat replace report represent "
    "reproduce require reset resemble resolve restore restrict result retain retrieve return reveal rewrite rise run satisfy save say scan "
    "see seek seem select send separate serve share shift should show simplify sit skip solve sort speak specify spend split stand start "
    "state stay stop store strip study submit succeed suggest support suppose suppress suspend swap take talk teach tell tend terminate "
    "test think throw transform translate traverse treat trigger truncate try turn understand unpack update use utilize vary verify view wait "
    "walk want wish wrap write yield"
)
_ALSO_NOUNS = _set(
    "act attempt base cause change check claim concern cover cut design display drive drop end exchange exception fall focus force "
    "function help hit import increase influence interest interface lack lead list load look love mark match measure mention merge "
    "move need note object offer open order own pass pattern place play point present print process produce project promise pull push raise "
    "range reach read release repeat report request reset result return rise run save scan search set shape share shift show sort split "
    "stand start state stay stop store strip study support swap talk test track transform trigger try turn type update use value "
    "view visit wait walk will wish wrap work yield"
)
"""Stems that are as often nouns: only the words around decide."""

_IRREGULAR_VERBS = _set(
    "began begun bound bought brought built came caught chose chosen did done drew drawn driven drove ate eaten fell fallen felt "
    "found fed gave given got gotten went gone grew grown had heard held hid hidden hit kept knew known led left lent let lost made meant "
    "met paid put ran rose risen said sat saw seen sent sold shown shot shut sought spent spoke spoken stood struck stuck sung swept "
    "taken taught thought threw thrown told took understood undone wept woke won wore worn wound written wrote born"
)


def _inflect(stem: str) -> tuple[str, ...]:
    if stem.endswith("e"):
        return (stem, stem + "s", stem + "d", stem[:-1] + "ing")
    if stem.endswith("y") and stem[-2] not in "aeiou":
        return (stem, stem[:-1] + "ies", stem[:-1] + "ied", stem + "ing")
    if stem.endswith(("s", "sh", "ch", "x", "z", "o")):
        return (stem, stem + "es", stem + "ed", stem + "ing")
    doubled = stem + stem[-1]
    return (stem, stem + "s", stem + "ed", stem + "ing", doubled + "ed", doubled + "ing")


VERBS = (
    frozenset(form for stem in _VERB_STEMS - _ALSO_NOUNS for form in _inflect(stem)[:2]) | _IRREGULAR_VERBS
)
"""Forms that are verbs wherever they stand (base form and third person)."""

AMBIGUOUS = frozenset(form for stem in _ALSO_NOUNS for form in _inflect(stem)[:2])
"""Forms that are nouns or verbs."""

VERB_FORMS = (
    frozenset(form for stem in _VERB_STEMS | _ALSO_NOUNS for form in _inflect(stem)) | _IRREGULAR_VERBS
)
"""Every form of every verb above, participles included."""

ADVERBS = _set(
    "again already always ago also else even ever far first forth hence however instead later maybe merely never next now often "
    "once only perhaps quite rather since so sometimes somewhat soon still then therefore thus today together tomorrow too twice "
    "usually very well yesterday yet respectively etc e.g i.e vice versa ahead alike apart aside backwards forwards upward downward "
    "inside outside overseas indoors abroad alone aloud afterwards aboard forever below above elsewhere everywhere meanwhile moreover "
    "nevertheless nonetheless otherwise namely least most more less"
)
NOT_ADVERBS = _set(
    "assembly family anomaly reply supply monopoly butterfly ally rally jelly belly bully early only friendly daily likely fly italy july "
    "lily emily sally kelly polly molly billy willy holly shelly elderly weekly monthly yearly quarterly melancholy"
)

GENERIC_ADJECTIVES = _set(
    "two three four five six seven eight nine ten eleven twelve twenty hundred thousand million fourth fifth sixth "
    "able above actual additional alternative another appropriate arbitrary available bad best better big brief broad certain clear "
    "close common complete concrete considerable convenient corresponding current dear dedicated different difficult distinct "
    "double due early easy effective empty enough entire equal equivalent essential eventual exact existing explicit expected extra extreme "
    "false famous far few final fine first following former full further general given good great half happy hard high huge identical "
    "immediate implicit important impossible initial innermost interesting just key large largest last late later latest "
    "latter least left less like likely little long longer low main major many maximum mere minimum minor more most much multiple necessary "
    "new newer next nice novel numerous obvious odd old older one only optional ordinary original other outer outermost overall "
    "own particular past perfect plus poor popular possible potential preceding precise present previous primary prior proper "
    "quick ready recent regular related relative relevant remaining required respective responsible rest rich right "
    "same second secondary separate serious several short significant similar simple single slight small smaller smallest specific "
    "straight strict strong subsequent substantial such sufficient suitable superior sure surrounding third top total traditional true "
    "typical ultimate underlying undesirable unique unusual upcoming upper useful usual valid various vast very vital weak well whole wide "
    "widespread wonderful wrong young zero"
)
"""Say nothing of what a thing is: dropped from the front of a term, and never its last word."""

LAST_ADJECTIVES = _set(
    "abstract academic accessible active adequate alive ancient annual applicable associated asleep asynchronous atomic automatic aware "
    "binary british callable capable central characteristic classic comparable compatible complex consistent constant content contextual "
    "continuous correct critical cultural dangerous dead deprecated dependent dirty dynamic eager economic electric electronic empirical enclosed "
    "english european exclusive external fast fixed flat foreign formal fresh functional fundamental global guaranteed hashable heavy hierarchical "
    "historical hot human illegal immutable inclusive incomplete inconsistent incorrect inefficient infinite inline inner insufficient intact "
    "internal international invalid invisible irrelevant iterable known lazy legal legitimate linear literal local logical magic manual "
    "married mathematical meaningful mechanical medical military modern mutable mutual narrow national native natural negative neutral nested "
    "non-empty numeric nonlocal occasional old-fashioned opaque ordinal orthogonal parallel partial passive permanent personal physical political "
    "portable positive practical precious predictable predominant private professional proportional qualified quiet rapid rational reachable "
    "readable recursive redundant reliable remarkable reserved reusable robust safe scarce secret secure semantic sensible sensitive sequential "
    "sexual sharp silent singular slow smart social soft solid sophisticated sparse spatial spiritual stable static structural subject subtle "
    "successful surprising symmetric synchronous synonymous syntactic tall technical temporary thick thin tight tiny transparent trivial ugly "
    "unable unaware unavailable uncertain unchanged unclear undefined unexpected unfamiliar uniform universal unknown unlikely unlimited unnecessary "
    "unreachable unreliable unsafe unspecified unstable unused vague verbose vertical violent visible visual vulnerable warm wild willing worth "
    "iterable subscriptable callable"
)
"""Adjectives that may open a term (*immutable object*) and never close one."""

ADJECTIVE_ENDINGS = ("able", "ible", "ful", "less", "ous", "ical", "est", "ish")
NOT_ADJECTIVES = _set(
    "table variable cable fable syllable vegetable timetable executable iterable callable bible mouthful handful interest test request "
    "quest guest forest contest digest west rest nest chest harvest arrest protest manifest priest fish dish wish bush rubbish radish "
    "spanish english finish parish"
)

GENERIC_NOUNS = _set(
    "ability addition advantage aim amount answer anyone aspect attempt author back basis beginning behalf benefit bit bottom care case cause "
    "chance change choice circumstance class code combination comparison concern condition consequence contrast copy correspondence course "
    "day deal definition degree description detail difference discussion distinction documentation door effect effort element end entry essence "
    "evening event evidence exact example exception extent eye face fact fashion feature figure first following foot form fraction front "
    "future general goal group half hand handful head heart help hour house idea impact implementation implication importance information "
    "instance interest introduction issue item job kind knowledge lack language last latter left length level life light line list look lot "
    "majority manner many matter meaning means mention method mind minute moment month morning most name nature need night none note nothing "
    "notion number object occasion occurrence one operation opinion option order origin other outcome overview page pair paragraph part past people "
    "percent period person perspective piece place plan plenty point portion position possibility practice presence present problem process "
    "proportion purpose quantity question range rate reason reference regard relation respect rest result return right role room rule sake section "
    "sense sequence series set share short side similarity situation size solution something sort step subject success such summary support syntax "
    "tail task term text thing thought time title today top topic total turn two type unit use user value variety version view voice way week "
    "whole will wish word work world year yesterday tomorrow start stop boy girl man woman child day eyes arm paper"
)
"""Too wide to be an entity by themselves; as the last word of a longer term they are fine (*return value*)."""

EMPTY_HEADS = _set(
    "amount bit case chance course day degree example extent fact fashion hand instance kind lot manner means moment number "
    "one part piece point reason sake sense sort thing time turn variety way year month week hour minute other others following rest "
    "purpose respect detail details bullet subsection section paragraph page chapter figure table effect change something anything nothing"
)
"""A term that ends with one of these is a phrase of ordinary talk (*first case*, *special way*)."""

LABELS = _set(
    "figure fig table chapter section sec eq equation appendix part volume vol page step stage stave act scene line item issue no number note "
    "example exercise lemma theorem definition proposition corollary listing algorithm version article paragraph verse question"
)
"""A number behind one of these makes a label, not a name."""

STARTERS = STOPWORDS | _set(
    "according additionally alternatively although among apparently based basically besides briefly changed clearly compared concerning "
    "consequently conversely currently dear deprecated despite details due earlier early eventually evidently example exactly excellent "
    "fallback finally first firstly following formerly fortunately furthermore generally given good hello hence historically hush ideally importantly "
    "including initially interestingly internally last lastly later likewise mainly many meanwhile moreover mostly namely nearly new next "
    "normally note notably notes notice nowadays obviously occasionally often once only originally overall particularly please possibly "
    "presumably previously primarily probably rationale recall recently regardless remember second secondly see several shortly similarly simply "
    "since sixth sometimes specifically starting still strictly suppose third three thirdly thus together traditionally two typically unfortunately "
    "unless unlike usage usually various versus warning warnings well whether yes yet today tomorrow yesterday come go let make take give look consider "
    "suppose assume say tell ah oh ha hey alas bah humbug hallo hurrah indeed ay aye hark lo nay none nothing everything half four five six seven eight "
    "nine ten eleven twelve one zero dozens hundreds thousands people men women children things others part parts most more less fewer each every "
    "old young great little long short big small such same other another certain different numerous countless plain poor quite right wrong sure "
    "true false added new removed returns raises called see todo fixme tip hint caution danger important attention error seealso contents index summary "
    "abstract introduction conclusion references bibliography acknowledgements appendix overview background discussion results methods preliminary "
    "credits language author title illustrator release produced printed reprinted published copyright isbn edition translated"
)
"""Capital letter or not, a sentence may begin with one of these: no evidence for a name."""

FOREIGN_STARTERS = _set(
    "der die das den dem des ein eine einen einem einer und oder aber in im am an auf aus bei mit nach von vom vor zu zum zur er sie es wir ihr "
    "ist war sind nicht auch als wie wenn dass da so nur noch sein seine ihre dieser diese dieses "
    "le la les un une des du de et ou mais il elle ils elles on nous vous ce cet cette ces son sa ses leur leurs dans en par pour sur avec "
    "el los las una unos unas y o pero su sus este esta estos estas con por para como cuando no se al del "
    "lo gli i uno e ma nel nella con per che si questo questa "
    "os as um uma ele ela eles mas com seu sua não em no na "
    "het een van op is zijn hij zij we de "
    "в и на с по к у о из за от до не но он она они это как что для при"
)
"""Articles, pronouns and the like of other languages, where a text is not English."""
CALENDAR = _set(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec "
    "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun am pm bc ad bce ce gmt utc"
)

DEMONYMS = _set(
    "american british english french german italian spanish russian chinese japanese indian australian canadian dutch swedish norwegian "
    "danish finnish polish irish scottish welsh european african asian greek roman latin turkish korean mexican brazilian argentine portuguese "
    "austrian swiss belgian hungarian czech ukrainian iranian persian iraqi israeli egyptian arab arabic jewish christian catholic muslim "
    "islamic protestant soviet western eastern northern southern north-american african-american pakistani filipino vietnamese thai "
    "indonesian malaysian nigerian kenyan cuban colombian chilean peruvian venezuelan romanian bulgarian serbian croatian slovak slovenian "
    "estonian latvian lithuanian icelandic democratic republican victorian medieval"
)

HONORIFICS = _set(
    "mr mrs ms miss mx dr prof professor sir lady lord dame madam captain capt colonel col general gen lieutenant lt sergeant sgt major "
    "reverend rev father fr sister brother saint president king queen prince princess emperor empress duke duchess count countess "
    "baron senator sen governor gov judge justice pope bishop archbishop cardinal chancellor minister secretary uncle aunt master"
)
FORMS_OF_ADDRESS = _set("mr mrs ms miss mx dr prof sir madam")
"""Honorifics that are no part of a name (*Mr. Topper* is Topper), as against *King George* or *Uncle Tom*."""
PERSON_TITLES = _set(
    "mr mrs ms miss mx dr prof sir lady lord captain king queen prince princess pope emperor empress uncle aunt reverend senator bishop "
    "archbishop cardinal duke duchess baron president professor"
)
"""Honorifics that make what follows a person."""
LITERALS = _set("none true false null nil nan undefined self cls")
"""Words of code that every program holds."""
FEMALE_ADDRESS = _set("mrs ms miss madam lady")
"""With one of these before it, a surname is another person than the surname alone."""

FIRST_NAMES = _set(
    "aaron abraham ada adam adrian agnes alan albert alec alex alexander alexandra alfred ali alice allan allen alma amanda amelia amy ana andre "
    "andrea andreas andrew andy angela anita ann anna anne annie anthony antonio arnold arthur ashley audrey august austin barbara barry "
    "beatrice belle ben benjamin bernard bernhard bert beth betty beverly bill billy bob bobby brad brandon brenda brian bruce bryan caitlin carl carla "
    "carlos carmen carol caroline carolyn catherine cathy cecil charles charlie charlotte cheryl chris christian christina christine christopher "
    "chuck claire clara clarence claude claudia clyde colin craig crystal cynthia dale dan daniel danny dave david dawn dean deborah debra denis "
    "dennis derek diana diane dick dmitri don donald donna doris dorothy doug douglas duncan dylan earl ebenezer ed eddie edgar edith edmund eduardo "
    "edward edwin eileen elaine eleanor elena eli elisabeth elizabeth ella ellen elsie emily emma emmanuel enrique eric erica erik ernest erwin "
    "esther ethan ethel eugene eva evan evelyn fan fanny felix fernando florence frances francis francisco frank franklin franz fred freddie frederick fritz "
    "gabriel gail gary gavin gene geoffrey george gerald gerard gilbert giovanni gladys glen glenn gloria gordon grace graham greg gregory gustav guy "
    "hannah hans harold harriet harry harvey heather hector heinrich helen helmut henri henry herbert herman hilda holly homer howard hubert hugh "
    "hugo ian igor ike ingrid irene isaac isabel isabella ivan jack jackie jacob jacques jaime jake james jamie jan jane janet janice jared jason "
    "jay jean jeff jeffrey jennifer jenny jeremy jerome jerry jesse jessica jessie jill jim jimmy joan joanna joe joel johan johann johannes john "
    "johnny jon jonathan jordan jorge jose josef joseph josephine joshua joyce juan judith judy julia julian julie julius karen karl kate "
    "katherine kathleen kathryn kathy katie keith kelly ken kenneth kevin kim kurt kyle larry laura lauren laurence lawrence leah lee leo leon "
    "leonard leonardo leroy leslie lester lewis liam lily linda lisa lloyd lois lorenzo lou louis louise lucas lucia lucille lucy luigi luis luke luther "
    "lynn mabel madison malcolm marc marcel marcus margaret maria marian marie marilyn mario marion marjorie mark marlene martha martin marvin mary "
    "mathew matt matthew maurice max maxwell megan melanie melissa michael michel michelle miguel mike mildred milton minnie miriam mitchell mohamed "
    "mohammed molly monica morris moses muhammad myrtle nancy natalie nathan nathaniel neil nellie nelson nicholas nick nicola nicole nigel nikolai "
    "nina noah noel nora norma norman olga oliver olivia omar orson oscar oskar otto owen pablo pamela patricia patrick paul paula pauline pedro peggy "
    "percy pete peter phil philip philipp phillip phyllis pierre rachel ralph ramon randall randy raphael ray raymond rebecca reginald rex rhonda "
    "ricardo richard rick rita rob robert roberto robin rodney roger roland roman romeo ron ronald rosa rose rosemary ross roy ruby rudolf rudolph rupert "
    "russell ruth ryan sally sam samantha samuel sandra sara sarah scott sean sebastian sergei seth shane shannon sharon shawn sheila shirley sidney "
    "sigmund simon sofia sophia sophie stacy stan stanley stella stephan stephanie stephen steve steven stewart stuart sue susan suzanne sylvia ted "
    "teresa terry theodore theresa thomas tiffany tim timothy tina toby todd tom tommy toni tony tracy ursula valerie vanessa vera vernon veronica "
    "vicki victor victoria vincent viola violet virginia vivian vladimir wallace walter wanda warren wayne wendy werner wesley wilhelm willard "
    "william willie winston wolfgang yuri yvonne zachary"
)

PERSON_VERBS = _set(
    "said says replied asked cried answered returned exclaimed thought smiled laughed nodded whispered shouted married born died wrote "
    "grew studied joined resigned argued believed looked walked sat stood knew felt told heard saw"
)

ORGANISATION_WORDS = _set(
    "university institute institution company co inc ltd llc corp corporation association council committee party department ministry bank press group "
    "records club school college society agency commission foundation league union church army navy court board bureau office police museum "
    "library hospital academy federation organization organisation authority trust network studios studio pictures entertainment productions "
    "publishing publishers airlines airways railway railways motors industries laboratories laboratory lab team band orchestra senate congress parliament "
    "assembly government administration service services house center centre station channel partnership brothers bros fc"
)
PLACE_WORDS = _set(
    "river lake mountain mountains mount county city island islands street avenue road square bridge park valley sea ocean bay desert "
    "forest hill hills peninsula province district region state states republic kingdom empire town village township airport cape coast canyon "
    "creek falls gulf harbor harbour port beach palace castle tower cathedral building square territory municipality borough"
)
EVENT_WORDS = _set(
    "war battle olympics olympic cup championship championships election elections festival revolution treaty conference tournament games prix open "
    "awards award bowl massacre siege rebellion uprising earthquake hurricane expedition congress census season crisis summit act draft tour"
)

_CODE_HEADS = _set(
    "statement expression method function operator loop clause keyword class module exception attribute command option flag "
    "decorator block error parameter argument type object package library variable field directive macro header tag suite form"
)
CODE_HEADS = {form: name_key(form) for head in _CODE_HEADS for form in _inflect(head)[:2]}
"""Nouns, also in the plural, that tell what a quoted or marked word is: *the "with" statement*."""

NO_NAMES = _set("inc ltd llc corp co jr sr bros tv fm mw dvd cd ok phd")
"""Capitalised scraps that are no name on their own."""
SMALL_CONNECTORS = _set(
    "of de la le les van von der den di da du des del della dos das do el al bin ibn ben zu ter ten d' d’"
)
INNER_ARTICLES = _set("the la los las les den der")
BODIES = _set("department ministry bureau institute society museum faculty academy school")
OPEN_OWNED_NAMES = _set("st. men's women's children's new")
"""What begins with one of these is one name with the owner in it: *St. Mary's*."""
GREAT = _set(
    "great elder younger bald conqueror baptist terrible pious wise magnificent bold pooh kid ripper first second third"
)

_DULL_HEADINGS = _set(
    "introduction contents references notes note example examples preface index abstract conclusion conclusions overview background summary appendix "
    "figures tables license licence acknowledgements acknowledgments bibliography credits by footnotes discussion results method methods preliminary "
    "preliminaries illustrations illustration characters foreword list epilogue prologue history usage warning changelog todo faq author language title date isbn "
    "description details remarks rationale motivation"
) | {
    "see also",
    "external links",
    "further reading",
    "related work",
    "table of contents",
    "list of illustration",
    "in colour",
    "in black and white",
    "the end",
}
DULL_HEADINGS = frozenset(name_key(heading) for heading in _DULL_HEADINGS)
"""Keys of headings that name nothing of their own."""
